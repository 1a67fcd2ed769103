//! What the gate promises, one file a promise, seen from outside: clients and providers in memory, time paused.

mod bad_input;
mod deadlines;
mod distinct;
mod drain;
mod faults;
mod hangup;
mod models;
mod odd_answers;
mod paid_once;
mod passthrough;
mod refusals;
mod silence;
mod stream_limits;
mod uploads;
mod world;
