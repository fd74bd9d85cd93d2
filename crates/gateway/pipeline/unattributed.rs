//! Questions of upstreams that belong to nobody's request.

use std::sync::Arc;

use admission::{Principal, TenantId};
use upstream::{Connection, Seat, Spec};
use wire::{Frame, Method, code};

use crate::{audit::Outcome, gateway::Gateway, router::principal_of};

impl Gateway {
    /// The other direction: a question that begins at an upstream and belongs to no running request of one client, so
    /// nobody can be asked (spec Q-04, bug B50). What belongs to one goes to its client: see `asking.rs`.
    pub(crate) async fn ask_back(
        &self,
        (spec, seat): (&Spec, &Seat),
        connection: &Connection,
        question: &Frame,
        recorded: bool,
    ) {
        let Some(id) = question.id() else { return };
        if recorded && let Ok(mut record) = self.audit.open().await {
            let (asker, issuer) = match seat {
                Seat::Shared => (Arc::from("shared"), Box::default()),
                Seat::Principal(key) => principal_of(key),
                Seat::Session(session) => (Arc::clone(session), Box::default()),
            };
            record.identified(&Arc::new(Principal::named(
                TenantId::new(Arc::clone(&spec.tenant)),
                issuer,
                asker,
            )));
            record.asked_by(&spec.id);
            record.read(question);
            record.close(Outcome::Denied, Some("nobody_to_ask"), 0);
        }
        let (code, why) = match question.method() {
            Some(Method::ElicitationCreate | Method::SamplingCreate | Method::RootsList) => {
                (code::INVALID_PARAMS, "belongs to no running request of one client")
            }
            _ => (code::METHOD_NOT_FOUND, "is not asked of clients"),
        };
        let text = format!("`{}` {why}", question.method_name());
        let answer = code::failure(Some(id), code, &text, None);
        // An upstream that is gone needs no answer.
        let _ = connection.tell(answer);
    }
}
