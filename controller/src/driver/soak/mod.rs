//! Soaks: attempts that last for hours and give points on the way.
//!
//! The agents of the hosts run the loads for as long as the soak is to last, whoever is connected, and end them then; the
//! scheduler stops the services behind them. What the loads report on the way becomes points, marks and failures:
//!
//! | module | is for |
//! |---|---|
//! | `spec` | what a soak asks of its tasks |
//! | `task_clock`, `host_times` | when something happened, whatever is done to clocks |
//! | `merge`, `sweep`, `judge`, `thin` | reports of several loads in one order, combined, evaluated, and made few |
//! | `arrival`, `reading` | from what a load reports and wrote to what it found |
//! | `course` | all of that together, for one attempt |
//! | `silence` | loads that give nothing for too long |
//! | `live` | what the driver keeps of a soak |
//! | `glue`, `end` | the driver's methods, from the first report to the verdict |
//! | `recorder` | the thread that writes series and timelines |
//! | `evidence` | what explains a failure, before anything is put right |

mod arrival;
mod course;
#[cfg(test)]
mod course_tests;
mod end;
mod evidence;
mod glue;
mod host_times;
mod judge;
mod live;
mod merge;
mod reading;
mod recorder;
mod silence;
mod spec;
mod sweep;
mod task_clock;
mod thin;

pub use live::LiveSoak;
pub use recorder::{Recorded, Recorder, Shape};
pub use spec::Times;
