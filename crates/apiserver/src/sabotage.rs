//! Sabotage: deliberate bugs of this server, each of which the corpus of requests must notice. A
//! corpus that tells no bug proves nothing about a server that passes it.
//!
//! One bug may be planted in a process that is built with the feature `sabotage`. In every other
//! build [`Sabotage::is_planted`] is the constant `false`, and nothing of any bug is compiled.

#[cfg(feature = "sabotage")]
use std::sync::OnceLock;

#[cfg(feature = "sabotage")]
static PLANTED: OnceLock<Sabotage> = OnceLock::new();

/// A rule that the server does not keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(
    not(feature = "sabotage"),
    expect(unreachable_pub, reason = "public where it is planted")
)]
pub enum Sabotage {
    /// An update of an outdated object overwrites the newer one.
    StaleWrites,
    /// A delete goes through whatever its preconditions say.
    NoPreconditions,
    /// A dry run is stored.
    StoredDryRuns,
    /// Finalizers hold nothing back.
    NoFinalizers,
    /// `metadata.generation` does not count changes.
    StillGeneration,
    /// What may never change of a built-in object may.
    MutableFields,
    /// `/status` changes the rest of the object too.
    StatusWritesAll,
    /// Unknown fields are dropped without a word, however strictly they are asked about.
    SilentDrops,
    /// A JSON patch goes on although its test failed.
    NoPatchTests,
    /// A strategic merge patch replaces lists that should merge.
    ReplacedLists,
    /// Server-side apply takes fields from whoever owns them.
    NoConflicts,
    /// What was applied once stays when it is applied no more.
    StickyFields,
    /// Writes other than apply make nobody the owner of anything.
    NoOwners,
    /// Every page of a list is the first.
    FirstPageAlways,
    /// A watch forgets what an object was: changes are additions, and ends are not told.
    ForgetfulWatch,
    /// A watch does not say where its initial events end.
    EndlessBeginning,
    /// A label selector's `notin` leaves out objects without the label.
    NotInNeedsLabel,
    /// A field selector's `!=` selects everything.
    UnequalSelectsAll,
    /// Custom resources keep fields that their schema does not know.
    NoPruning,
    /// Custom resources do not get their schema's defaults.
    NoDefaults,
    /// Rules that compare with the old value are not asked.
    NoTransitionRules,
    /// A custom resource calls itself by the version that it is stored in.
    StoredVersionShown,
    /// A role that names objects allows all of them.
    AnyName,
    /// Everybody may grant what they do not hold.
    NoEscalationCheck,
    /// Everybody may act as anybody.
    FreeImpersonation,
    /// Quotas count, and refuse nothing.
    NoQuotas,
    /// Containers do not get the defaults of their namespace.
    NoLimitDefaults,
    /// Pod security standards, policies and webhooks are not asked.
    NoAdmission,
    /// An eviction asks no disruption budget.
    NoBudgets,
    /// Tables show a person every column at once.
    WideTables,
    /// Discovery does not tell of subresources.
    NoSubresources,
}

impl Sabotage {
    /// Every sabotage with the cases of the corpus that are there to tell it, by how their names
    /// (`file/case`) begin.
    #[cfg(feature = "sabotage")]
    pub const ALL: [(Self, &'static [&'static str]); 31] = [
        (Self::StaleWrites, &["crud/update-"]),
        (Self::NoPreconditions, &["crud/delete-"]),
        (Self::StoredDryRuns, &["dry-run/"]),
        (Self::NoFinalizers, &["finalizers/delete-", "finalizers/removing-"]),
        (Self::StillGeneration, &["crud/update-", "validate-workloads/dep-"]),
        (Self::MutableFields, &["crud/update-", "validate-workloads/"]),
        (Self::StatusWritesAll, &["status-scale/"]),
        (Self::SilentDrops, &["field-validation/"]),
        (Self::NoPatchTests, &["patch-json/"]),
        (Self::ReplacedLists, &["patch-strategic/"]),
        (Self::NoConflicts, &["apply/conflict", "apply/two-"]),
        (Self::StickyFields, &["apply/removes-", "apply/set-"]),
        (Self::NoOwners, &["managed-fields/"]),
        (Self::FirstPageAlways, &["list/pages"]),
        (Self::ForgetfulWatch, &["watch/label-", "watch/delete"]),
        (Self::EndlessBeginning, &["watch-list/unset", "watch-list/zero"]),
        (Self::NotInNeedsLabel, &["selectors/label-"]),
        (Self::UnequalSelectsAll, &["selectors/field-"]),
        (Self::NoPruning, &["crd-prune-default/"]),
        (Self::NoDefaults, &["crd-prune-default/"]),
        (Self::NoTransitionRules, &["crd-cel/transition-"]),
        (Self::StoredVersionShown, &["crd-versions/"]),
        (Self::AnyName, &["rbac/role-"]),
        (Self::NoEscalationCheck, &["rbac/escalation-"]),
        (Self::FreeImpersonation, &["rbac/impersonate-"]),
        (Self::NoQuotas, &["quota/"]),
        (Self::NoLimitDefaults, &["limit-range-pods/"]),
        (Self::NoAdmission, &["pod-security/"]),
        (Self::NoBudgets, &["eviction/budget-"]),
        (Self::WideTables, &["table/of-"]),
        (Self::NoSubresources, &["discovery/resources-"]),
    ];

    /// Breaks this rule for as long as the process lives; the other one, if one is broken already.
    #[cfg(feature = "sabotage")]
    pub fn plant(self) -> Result<(), Self> {
        match *PLANTED.get_or_init(|| self) {
            planted if planted == self => Ok(()),
            planted => Err(planted),
        }
    }

    /// Whether this rule is broken.
    #[cfg(feature = "sabotage")]
    pub(crate) fn is_planted(self) -> bool {
        PLANTED.get() == Some(&self)
    }

    /// Whether this rule is broken: never, in this build.
    #[cfg(not(feature = "sabotage"))]
    pub(crate) const fn is_planted(self) -> bool {
        false
    }
}
