//! What the gate promises, one file a promise, seen from outside: clients and providers in memory, time paused.

mod bad_input;
mod deadlines;
mod distinct;
mod drain;
mod either_tongue;
mod faults;
mod flow;
mod h2;
mod hangup;
mod live;
mod models;
mod odd_answers;
mod paid_once;
mod passthrough;
mod pipelined;
mod refusals;
mod silence;
mod slow_clients;
mod stream_limits;
mod uploads;
mod world;
