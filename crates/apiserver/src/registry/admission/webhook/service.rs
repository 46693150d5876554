//! Where the webhook behind a service is.

use serde_json::Value;

use super::super::super::Call;
use super::client::Endpoint;

impl Endpoint {
    /// That of a service, as far as its name says; where it is, is for the service itself to say.
    pub(super) fn of_service(namespace: &str, name: &str, path: &str, port: u16) -> Self {
        let server_name = format!("{name}.{namespace}.svc");
        let slash = if path.starts_with('/') { "" } else { "/" };
        Self {
            address: (String::new(), port),
            authority: format!("{server_name}:{port}"),
            server_name,
            path: format!("{slash}{path}"),
        }
    }
}

impl Call<'_> {
    /// What to dial for a service at a port: a ready endpoint of its own, else its address.
    pub(super) fn address_of_service(
        &self,
        namespace: &str,
        name: &str,
        port: u16,
    ) -> Result<(String, u16), String> {
        let failed = |error: crate::status::ApiError| error.message;
        let service = self.server.read("", "services", Some(namespace), name).map_err(failed)?;
        let service = service.map(Value::Object);
        let service = service.ok_or_else(|| format!("service \"{name}\" not found"))?;
        let spec = &service["spec"];
        if let ("ExternalName", Some(host)) =
            (spec["type"].as_str().unwrap_or_default(), spec["externalName"].as_str())
        {
            return Ok((host.to_owned(), port));
        }
        let mut ports = spec["ports"].as_array().into_iter().flatten();
        let own = ports.find(|own| own["port"] == port);
        let own =
            own.ok_or_else(|| format!("no service port {port} found for service \"{name}\""))?;
        let table = self.server.table();
        let slices = match table.get("discovery.k8s.io", "endpointslices") {
            Some(resource) => self.server.read_all_in(resource, Some(namespace)).map_err(failed)?,
            None => Vec::new(),
        };
        let mut known = false;
        for slice in slices.into_iter().map(Value::Object) {
            if slice["metadata"]["labels"]["kubernetes.io/service-name"] != name {
                continue;
            }
            known = true;
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let mut ports = slice["ports"].as_array().into_iter().flatten();
            let port = ports.find(|port| text(&port["name"]) == text(&own["name"]));
            let port = port.and_then(|port| u16::try_from(port["port"].as_u64()?).ok());
            let mut endpoints = slice["endpoints"].as_array().into_iter().flatten();
            let ready = endpoints.find(|one| one["conditions"]["ready"] != false);
            let address = ready.and_then(|one| one["addresses"][0].as_str());
            if let (Some(address), Some(port)) = (address, port) {
                return Ok((address.to_owned(), port));
            }
        }
        match spec["clusterIP"].as_str() {
            Some(address) if !known && !matches!(address, "" | "None") => {
                Ok((address.to_owned(), port))
            }
            _ => Err(format!("no endpoints available for service \"{name}\"")),
        }
    }
}
