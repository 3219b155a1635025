//! PostgreSQL.

use super::fixture::{Tables, draft, stamped};

mod by_lock {
    outbox::source_suite!(super::Tables::new(super::draft));
}

mod by_stamp {
    outbox::source_suite!(super::Tables::new(super::stamped));
}

mod store_by_lock {
    outbox::store_suite!(super::Tables::new(super::draft));
}

mod store_by_stamp {
    outbox::store_suite!(super::Tables::new(super::stamped));
}
