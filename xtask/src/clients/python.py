"""What a Python operator does: create, list, watch, three patches, dynamic objects, delete."""

import threading

from kubernetes import client, config, dynamic, watch
from kubernetes.client.exceptions import ApiException

config.load_kube_config()
api = client.CoreV1Api()
NAMESPACE = "default"


def refused(status, reason, call):
    try:
        call()
    except ApiException as error:
        assert error.status == status, error
        assert f'"reason":"{reason}"' in error.body.replace('": ', '":'), error.body
        return
    raise AssertionError(f"{reason} was expected")


def config_map(name, **data):
    return client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name, labels={"by": "python"}), data=data)


# Reads and writes of typed objects.
made = api.create_namespaced_config_map(NAMESPACE, config_map("a", k="1"))
assert made.metadata.uid and made.metadata.creation_timestamp.tzinfo
refused(409, "AlreadyExists", lambda: api.create_namespaced_config_map(NAMESPACE, config_map("a")))
refused(404, "NotFound", lambda: api.read_namespaced_config_map("absent", NAMESPACE))
made.data["k"] = "2"
changed = api.replace_namespaced_config_map("a", NAMESPACE, made)
assert changed.data == {"k": "2"}
refused(409, "Conflict", lambda: api.replace_namespaced_config_map("a", NAMESPACE, made))

# The client guesses the type of a patch: a list is a JSON patch, else a strategic merge.
patched = api.patch_namespaced_config_map("a", NAMESPACE, {"data": {"l": "3"}})
assert patched.data == {"k": "2", "l": "3"}
patched = api.patch_namespaced_config_map("a", NAMESPACE, [{"op": "remove", "path": "/data/k"}])
assert patched.data == {"l": "3"}

# Pages.
for index in range(5):
    api.create_namespaced_config_map(NAMESPACE, config_map(f"page-{index}"))
names, token = [], None
while token != "":
    page = api.list_namespaced_config_map(NAMESPACE, label_selector="by=python", limit=2, _continue=token)
    names += [each.metadata.name for each in page.items]
    token = page.metadata._continue or ""
assert names == ["a"] + [f"page-{index}" for index in range(5)], names

# A watch from the list's revision sees what comes after.
start = api.list_namespaced_config_map(NAMESPACE).metadata.resource_version


def change():
    api.create_namespaced_config_map(NAMESPACE, config_map("w"))
    api.patch_namespaced_config_map("w", NAMESPACE, {"data": {"x": "y"}})
    api.delete_namespaced_config_map("w", NAMESPACE)


thread = threading.Thread(target=change)
thread.start()
seen = []
stream = watch.Watch()
for event in stream.stream(api.list_namespaced_config_map, NAMESPACE, resource_version=start,
                           label_selector="by=python", timeout_seconds=60):
    seen.append((event["type"], event["object"].metadata.name))
    if event["type"] == "DELETED":
        stream.stop()
thread.join()
assert seen == [("ADDED", "w"), ("MODIFIED", "w"), ("DELETED", "w")], seen

# A pod with its defaults and its status.
pod = client.V1Pod(metadata=client.V1ObjectMeta(name="p"), spec=client.V1PodSpec(
    containers=[client.V1Container(name="c", image="registry.example/c")]))
pod = api.create_namespaced_pod(NAMESPACE, pod)
assert pod.spec.restart_policy == "Always" and pod.status.phase == "Pending"
pod = api.patch_namespaced_pod_status("p", NAMESPACE, {"status": {"phase": "Running"}})
assert pod.status.phase == "Running"
api.delete_namespaced_pod("p", NAMESPACE, grace_period_seconds=0)

# A definition, and its objects by way of discovery.
definition = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "gauges.python.test"},
    "spec": {
        "group": "python.test",
        "scope": "Namespaced",
        "names": {"kind": "Gauge", "plural": "gauges", "singular": "gauge"},
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {
            "type": "object",
            "properties": {"spec": {"type": "object", "properties": {
                "at": {"type": "integer", "maximum": 9}}}}}}}],
    },
}
extensions = client.ApiextensionsV1Api()
extensions.create_custom_resource_definition(definition)
for event in watch.Watch().stream(extensions.list_custom_resource_definition, timeout_seconds=60,
                                  field_selector="metadata.name=gauges.python.test"):
    conditions = event["object"].status.conditions or [] if event["object"].status else []
    if any(each.type == "Established" and each.status == "True" for each in conditions):
        break
else:
    raise AssertionError("the definition was never established")
dyn = dynamic.DynamicClient(client.ApiClient())
gauges = dyn.resources.get(api_version="python.test/v1", kind="Gauge")
gauge = {"apiVersion": "python.test/v1", "kind": "Gauge", "metadata": {"name": "g"}, "spec": {"at": 1}}
assert gauges.create(gauge, namespace=NAMESPACE).spec.at == 1
gauge["spec"]["at"] = 2
applied = gauges.server_side_apply(gauge, name="g", namespace=NAMESPACE, field_manager="python",
                                   force_conflicts=True)
assert applied.spec.at == 2
assert "python" in [entry.manager for entry in applied.metadata.managedFields]
gauge["spec"]["at"] = 10
try:
    gauges.patch(gauge, name="g", namespace=NAMESPACE, content_type="application/merge-patch+json")
    raise AssertionError("10 is more than 9")
except dynamic.exceptions.UnprocessibleEntityError:
    pass
gauges.delete(name="g", namespace=NAMESPACE)
assert gauges.get(namespace=NAMESPACE).items == []

# Deletes of many.
api.delete_collection_namespaced_config_map(NAMESPACE, label_selector="by=python")
assert api.list_namespaced_config_map(NAMESPACE, label_selector="by=python").items == []
