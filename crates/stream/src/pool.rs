//! Threads that take jobs off one queue until there are none, or one fails.

use std::num::NonZero;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

/// The cores that this process may use.
pub(crate) fn cores() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// Does every job, in about their order, on at most so many threads; each thread makes a state of its
/// own first.
///
/// # Errors
/// The first error of a job or a state; what was not begun by then is left.
pub(crate) fn each<J, S, E>(
    threads: usize,
    jobs: Vec<J>,
    state: impl Fn() -> Result<S, E> + Sync,
    work: impl Fn(&mut S, J) -> Result<(), E> + Sync,
) -> Result<(), E>
where
    J: Send,
    E: Send,
{
    let threads = threads.clamp(1, jobs.len().max(1));
    let queue = Mutex::new(jobs.into_iter());
    let failed = Mutex::new(None);
    let next = || if locked(&failed).is_some() { None } else { locked(&queue).next() };
    let run = || {
        let done = state().and_then(|mut state| {
            while let Some(job) = next() {
                work(&mut state, job)?;
            }
            Ok(())
        });
        if let Err(error) = done {
            locked(&failed).get_or_insert(error);
        }
    };
    if threads == 1 {
        run();
    } else {
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(run);
            }
        });
    }
    failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn every_job_is_done_once() {
        for threads in [1, 4] {
            let sum = AtomicUsize::new(0);
            let add = |_: &mut (), job| {
                sum.fetch_add(job, Ordering::Relaxed);
                Ok::<(), ()>(())
            };
            assert_eq!(each(threads, (0..=1000).collect(), || Ok(()), add), Ok(()));
            assert_eq!(sum.into_inner(), 500_500);
        }
    }

    #[test]
    fn the_first_failure_ends_it() {
        let done = AtomicUsize::new(0);
        let work = |_: &mut (), job| {
            done.fetch_add(1, Ordering::Relaxed);
            if job == 3 { Err(job) } else { Ok(()) }
        };
        assert_eq!(each(1, (0..1000).collect(), || Ok(()), work), Err(3));
        assert_eq!(done.into_inner(), 4);
    }
}
