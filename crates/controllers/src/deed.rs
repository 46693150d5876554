//! What all share that carry out a [`plan::deed`].

use kit::controller::{Mood, Note};

/// What a plan has to tell, as an Event by somebody who does `action`.
pub(crate) fn told(event: &plan::Event, action: &str) -> Note {
    let mood = match event.mood {
        plan::Mood::Normal => Mood::Normal,
        plan::Mood::Warning => Mood::Warning,
    };
    let (reason, text) = (event.reason.clone(), event.note.clone());
    Note { mood, reason, action: action.to_owned(), text }
}
