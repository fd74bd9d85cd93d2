//! A resource has changed: who hears of it, and how.

use std::{borrow::Cow, sync::Arc};

use admission::{Call, Decision, Scene, Sort, Target};
use bytes::Bytes;
use tokio::{task::consume_budget, time::Instant};
use wire::{Change, Frame, Method, Pieces, code, meta};

use super::{Mouth, Party, Place};
use crate::{
    authn,
    catalog::{Catalog, View},
    gateway::Gateway,
};

/// Tells the followers of a resource that it has changed, under the URI that each knows (spec R-07). They may be many:
/// others get their turn meanwhile.
pub(crate) async fn updated(
    gateway: &Gateway,
    catalog: &Catalog,
    place: &Place,
    (uri, said): (&str, &Frame),
) {
    let snapshot = gateway.snapshot.load_full();
    let concerned = gateway.router.subscriptions.table(&catalog.tenant, |table| table.concerned(place, uri));
    for party in concerned {
        if let Some(view) = catalog.view(&party.server) {
            let exposed = view.uri(&place.upstream, uri);
            if may_hear(&snapshot.checks, &view, &party, &exposed, said) {
                party.tell(&exposed, said);
            }
        }
        consume_budget().await;
    }
}

/// Of what is hidden from somebody now, nothing is told: a resource below the one that is followed may be, and rules
/// change.
fn may_hear(checks: &admission::Checks, view: &View, party: &Party, exposed: &str, said: &Frame) -> bool {
    let Some(thing) = view.named(Sort::Resource, exposed) else { return false };
    let method = match party.mouth {
        Mouth::Session(_) => Method::ResourcesSubscribe,
        Mouth::Listen(_) => Method::SubscriptionsListen,
    };
    let call = Call {
        principal: party.principal.clone(),
        method,
        target: Target::Thing(thing),
        frame: said.clone(),
        received: Instant::now().into_std(),
        grant: None,
        scene: Scene {
            server: Arc::clone(&view.server),
            session: match &party.mouth {
                Mouth::Session(session) => Some(Arc::clone(&session.name)),
                Mouth::Listen(_) => None,
            },
            tainted: false,
            now: authn::now(),
        },
    };
    matches!(checks.decide(call), Decision::Admitted(_))
}

impl Party {
    fn tell(&self, exposed: &str, said: &Frame) {
        match &self.mouth {
            Mouth::Session(session) => {
                // Without a stream it misses this one: a resource that changed changes again.
                session.tell(&Pieces::one(shown(exposed, said, None)));
            }
            Mouth::Listen(mailbox) => mailbox.put(exposed, shown(exposed, said, Some(mailbox.tag()))),
        }
    }
}

/// The notification for a client: its URI, and the id of its listen request if there is one (spec U-25).
fn shown(exposed: &str, said: &Frame, tag: Option<&str>) -> Bytes {
    // Ids of the upstream's own hop never pass.
    let kept = meta::for_upstream(said.param("_meta"), None);
    let meta = match tag {
        Some(tag) => Some(tagged(tag, kept.as_deref())),
        None => kept,
    };
    let changes = [
        Change { key: "uri", value: Some(Cow::Owned(code::quote(exposed))) },
        Change { key: "_meta", value: meta.map(Cow::Owned) },
    ];
    said.forward(None, &changes)
}

/// `_meta` with the id of a listen request, raw JSON, before what is in it already.
pub(super) fn tagged(tag: &str, kept: Option<&str>) -> String {
    match kept.and_then(|kept| kept.strip_prefix('{')).filter(|members| members.trim() != "}") {
        Some(members) => format!("{{\"{}\":{tag},{members}", meta::SUBSCRIPTION_ID),
        None => format!("{{\"{}\":{tag}}}", meta::SUBSCRIPTION_ID),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use wire::Budget;

    use super::*;

    #[test]
    fn an_update_bears_the_clients_uri_and_the_clients_id() {
        let text = r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"mem://a","title":"A","_meta":{"io.modelcontextprotocol/subscriptionId":77,"x":1}}}"#;
        let said = Frame::parse(text.into(), &Budget::UPSTREAM).expect("a frame");
        let told: Vec<_> = [None, Some("\"s1\""), Some("7")]
            .map(|tag| String::from_utf8_lossy(&shown("alpha+mem://a", &said, tag)).into_owned())
            .into();
        expect![[r#"
            {"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"alpha+mem://a","title":"A","_meta":{"x":1}}}
            {"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"alpha+mem://a","title":"A","_meta":{"io.modelcontextprotocol/subscriptionId":"s1","x":1}}}
            {"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"alpha+mem://a","title":"A","_meta":{"io.modelcontextprotocol/subscriptionId":7,"x":1}}}"#]]
        .assert_eq(&told.join("\n"));
    }
}
