//! A spike becomes a flow: the window, the queue, the door.

mod window;
