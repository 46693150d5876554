//! Approves the client certificates of nodes that may have them.

use std::sync::Arc;

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kit::controller::{Cache, Context, Controller, Error, ObjectKey, Wake, Watch, Wiring};
use kube::api::ObjectMeta;
use plan::certificates::{Right, rights};

use super::{GROUP, decide, has_certificate, read, since};

/// See the module.
pub struct CsrApproving(Cache<CertificateSigningRequest>);

/// A request that nobody has decided.
pub struct Observed {
    request: Arc<CertificateSigningRequest>,
    /// The first right by which it may be approved and which its user has.
    right: Option<Right>,
}

impl Controller for CsrApproving {
    type Key = ObjectKey;
    type Settings = ();
    type Observed = Observed;
    type Plan = Option<(Arc<CertificateSigningRequest>, Right)>;
    const NAME: &'static str = "csrapproving";

    fn wire((): (), wiring: &mut Wiring<ObjectKey>) -> Self {
        wiring
            .about("Approves the client certificates that nodes may have")
            .may(&["update", "patch"], GROUP, &["certificatesigningrequests/approval"])
            .may(&["approve"], GROUP, &["signers"])
            .may(&["create"], "authorization.k8s.io", &["subjectaccessreviews"]);
        Self(wiring.own(Watch::<CertificateSigningRequest>::all()))
    }

    async fn observe(&self, context: &Context, key: &ObjectKey) -> Result<Option<Observed>, Error> {
        let Some(request) = self.0.get(key) else { return Ok(None) };
        let decided = ["Approved", "Denied", "Failed"].iter().any(|d| since(&request, d).is_some());
        if decided || has_certificate(&request) {
            return Ok(None);
        }
        // One that cannot be read is for its signer to refuse.
        let Ok((_, asked)) = read(&request) else { return Ok(None) };
        let mut right = None;
        for candidate in rights(&asked) {
            if may(context, &request, candidate).await? {
                right = Some(candidate);
                break;
            }
        }
        Ok(Some(Observed { request, right }))
    }

    fn plan(observed: &Observed) -> Self::Plan {
        observed.right.map(|right| (Arc::clone(&observed.request), right))
    }

    async fn apply(&self, cx: &Context, _: &ObjectKey, plan: Self::Plan) -> Result<Wake, Error> {
        let Some((request, right)) = plan else { return Ok(Wake::Never) };
        decide(cx, &request, "Approved", "AutoApproved", right.message).await?;
        Ok(Wake::Never)
    }
}

/// Whether whoever made the request has a right.
async fn may(
    context: &Context,
    request: &CertificateSigningRequest,
    right: Right,
) -> Result<bool, Error> {
    let spec = &request.spec;
    let review = SubjectAccessReview {
        metadata: ObjectMeta::default(),
        spec: SubjectAccessReviewSpec {
            user: spec.username.clone(),
            uid: spec.uid.clone(),
            groups: spec.groups.clone(),
            extra: spec.extra.clone(),
            resource_attributes: Some(ResourceAttributes {
                group: Some(GROUP.to_owned()),
                resource: Some("certificatesigningrequests".to_owned()),
                verb: Some("create".to_owned()),
                subresource: Some(right.subresource.to_owned()),
                version: Some("*".to_owned()),
                ..ResourceAttributes::default()
            }),
            ..SubjectAccessReviewSpec::default()
        },
        status: None,
    };
    let reviews: kube::Api<SubjectAccessReview> = kube::Api::all(context.client().clone());
    let answer = reviews.create(&Default::default(), &review).await;
    let answer = answer.map_err(|error| Error::during("ask for a node's rights", error))?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}
