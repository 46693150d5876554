//! Planted bugs: what a controller might get wrong around the plans. Each breaks at least one
//! invariant, and a test finds each of them; none is ever active but where a test names it.

/// A way to get it wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Bug {
    /// Evidence counts as of the boot that runs, and fences compare no boots.
    AnyBoot,
    /// Status is written whatever version it was planned on.
    NoVersionCheck,
    /// A power command whose reply was lost is sent again at once.
    RetryLostReply,
    /// A power command is done without comparing what the BMC says about its last reset.
    IgnoreLastReset,
    /// The deeds of a plan come before its status.
    DeedBeforeStatus,
    /// The Event is told after the deed.
    EventAfterDeed,
    /// Work goes on as if the node held a grant.
    ForgetGrant,
    /// A grant is written over whatever the ledger holds by then.
    BudgetPerController,
    /// A grant is never given back.
    KeepGrant,
    /// Breakers are not looked at.
    IgnoreBreakers,
    /// Cordons carry no mark, so that all look like ours.
    AnyCordonIsOurs,
    /// A person's annotation is not read.
    IgnoreHandsOff,
    /// An assignment to another tenant is carried out without a wipe.
    SkipZap,
    /// The machine's answer to another request counts as ours.
    TrustAnyAnswer,
    /// A deed that failed is not looked at again.
    ForgetFailedDeed,
    /// A controller that starts waits for changes instead of looking at all there is.
    NoFirstLook,
    /// Timers are not kept.
    NoTimers,
    /// A watch that breaks off loses what happened meanwhile.
    LoseWatchEvents,
    /// Deadlines are not looked at.
    IgnoreDeadlines,
}

impl Bug {
    /// Every planted bug with the invariant that it breaks.
    pub const ALL: [(Self, &'static str); 19] = [
        (Self::AnyBoot, "no unwanted reboot"),
        (Self::NoVersionCheck, "one plan at a time decides"),
        (Self::RetryLostReply, "no duplicate reboot"),
        (Self::IgnoreLastReset, "no duplicate reboot"),
        (Self::DeedBeforeStatus, "no effect without object"),
        (Self::EventAfterDeed, "no effect without Event and audit record"),
        (Self::ForgetGrant, "no work without a grant"),
        (Self::BudgetPerController, "budgets are never exceeded"),
        (Self::KeepGrant, "nothing of ours stays behind"),
        (Self::IgnoreBreakers, "breakers hold"),
        (Self::AnyCordonIsOurs, "a person's cordon is never undone"),
        (Self::IgnoreHandsOff, "a person's word holds"),
        (Self::SkipZap, "a tenant's machine passes to the next only through Zap"),
        (Self::TrustAnyAnswer, "no stranded fault"),
        (Self::ForgetFailedDeed, "every machine and incident ends"),
        (Self::NoFirstLook, "every machine and incident ends"),
        (Self::NoTimers, "deadlines are observed"),
        (Self::LoseWatchEvents, "every machine and incident ends"),
        (Self::IgnoreDeadlines, "deadlines are observed"),
    ];
}
