//! All instances of a role as a value of templates: `{{ server.all[0].port }}`. Made for those tasks only whose
//! templates ask for it.

use std::{
    collections::BTreeMap,
    fmt::{self, Write},
    sync::Arc,
};

use minijinja::{
    Value,
    value::{Enumerator, Object, ObjectRepr},
};

use crate::{rendered::Endpoint, spec::Role};

/// A list of `{host, address, PORT, ...}`.
pub(crate) struct Instances {
    /// Names of the role's ports.
    ports: Vec<Arc<str>>,
    endpoints: Vec<Endpoint>,
}

impl Instances {
    pub(crate) fn new(role: &Role, endpoints: &[Endpoint]) -> Self {
        let ports = role.ports.iter().map(|port| port.name.as_str().into()).collect();
        Self { ports, endpoints: endpoints.to_vec() }
    }

    fn instance(&self, endpoint: &Endpoint) -> Value {
        let mut fields: BTreeMap<&str, Value> = BTreeMap::new();
        for (name, port) in self.ports.iter().zip(&endpoint.ports) {
            fields.insert(name, Value::from(*port));
        }
        fields.insert("host", Value::from(endpoint.host.as_str()));
        fields.insert("address", Value::from(endpoint.address.to_string()));
        Value::from_pairs(fields)
    }
}

impl fmt::Debug for Instances {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} instances", self.endpoints.len())
    }
}

impl Object for Instances {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.endpoints.get(key.as_usize()?).map(|endpoint| self.instance(endpoint))
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(self.endpoints.len())
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, endpoint) in self.endpoints.iter().enumerate() {
            if place > 0 {
                f.write_char(' ')?;
            }
            write!(f, "{}", endpoint.address)?;
            endpoint.ports.first().map_or(Ok(()), |port| write!(f, ":{port}"))?;
        }
        Ok(())
    }
}
