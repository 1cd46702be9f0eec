//! The stores of which the suite starts private servers on this host.

use leasehold::Error;
use leasehold_conformance::Subject;
use leasehold_test_stores::stores;
use std::sync::Arc;

/// Every store in every mode.
pub(crate) fn all() -> Vec<Arc<dyn Subject>> {
    stores::all().into_iter().map(Arc::from).collect()
}

/// The stores of these names or schemes; all if there is none.
pub(crate) fn named(names: &[String]) -> Result<Vec<Arc<dyn Subject>>, Error> {
    let named = stores::named(names).map_err(|cannot| {
        let known: Vec<String> = all().iter().map(|subject| subject.name().to_owned()).collect();
        Error::invalid("URL", cannot, format!("use one of: {}", known.join(", ")))
    })?;
    Ok(named.into_iter().map(Arc::from).collect())
}
