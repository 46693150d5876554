//! A program on client-go: shared and dynamic informers, with and without streaming lists and
//! protobuf, and across a loss of history. The program is ours, in `tools/clients`, and judges by
//! itself.

mod expired;

use anyhow::{Context, Result};

use super::session::{Session, output};
use crate::upstream::{self, Part};

const PROGRAM: Part =
    Part { module: "clients", program: "informers", package: "seatrial.dev/tools/clients" };

const DEFINITION: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.clients.test}
spec:
  group: clients.test
  names: {kind: Widget, plural: widgets, singular: widget}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties: {spec: {type: object, properties: {size: {type: integer}}}}
"#;

/// Each way of listing with each encoding.
pub(crate) fn check(session: &mut Session) -> Result<()> {
    let program = upstream::part(&PROGRAM)?;
    session.create(DEFINITION)?;
    session.kubectl("wait crd/widgets.clients.test --for=condition=Established --timeout=60s")?;
    session.until_get("serviceaccount default -o name", "serviceaccount/default")?;
    for watch_list in [false, true] {
        for protobuf in [false, true] {
            let mut command = session.command(&program);
            command.arg("--kubeconfig").arg(&session.kubeconfig);
            command.arg(format!("--watch-list={watch_list}"));
            command.arg(format!("--protobuf={protobuf}"));
            output(&mut command)
                .with_context(|| format!("watch-list {watch_list}, protobuf {protobuf}"))?;
        }
        expired::check(session, &program, watch_list)
            .with_context(|| format!("a forgotten history, watch-list {watch_list}"))?;
    }
    Ok(())
}
