//! The transaction on its way to a handler and back.

use std::ops::{Deref, DerefMut};

use tokio::sync::oneshot;

/// The open transaction, lent to a handler: what it writes is committed together with the inbox.
///
/// It dereferences to the connection, as a transaction of `sqlx` does: `.execute(&mut *tx)`. It goes back when it is
/// dropped, so when the handler is through.
pub struct Lent<T> {
    tx: Option<T>,
    back: Option<oneshot::Sender<T>>,
}

impl<T> Lent<T> {
    pub(super) fn new(tx: T) -> (Self, oneshot::Receiver<T>) {
        let (back, returned) = oneshot::channel();
        (Self { tx: Some(tx), back: Some(back) }, returned)
    }
}

impl<T: Deref> Deref for Lent<T> {
    type Target = T::Target;
    fn deref(&self) -> &T::Target {
        self.tx.as_ref().expect("the transaction is here until the guard is dropped")
    }
}

impl<T: DerefMut> DerefMut for Lent<T> {
    fn deref_mut(&mut self) -> &mut T::Target {
        self.tx.as_mut().expect("the transaction is here until the guard is dropped")
    }
}

impl<T> Drop for Lent<T> {
    fn drop(&mut self) {
        if let (Some(tx), Some(back)) = (self.tx.take(), self.back.take()) {
            // Nobody waits for it when the delivery itself was given up; dropped, it rolls back.
            let _ = back.send(tx);
        }
    }
}
