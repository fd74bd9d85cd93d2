//! What a session asks to have kept with it: its log level, and the resources it follows.

use std::sync::Arc;

use admission::{Call, Target, Thing};
use wire::{Method, Pieces, code};

use super::{AGREED, Mouth, Party, SubscribeError, Who};
use crate::{
    error::{CatalogError, Error, Failed, LimitError},
    logging,
    router::{Answered, Context, Lane, Router},
    session::{Session, Sessions},
};

/// Answers a request of a session about the session itself.
pub(crate) async fn serve(
    router: &Router,
    call: &Call,
    context: &Context,
    sessions: &Sessions,
    mut lane: Lane,
) -> Result<Answered, Error> {
    let (Some(id), Some(session)) = (call.frame.id(), context.visit.session()) else {
        return Ok(Answered::Accepted);
    };
    match (call.method, &call.target) {
        (Method::SetLevel, _) => {
            logging::set_level(sessions, session, &call.frame)?;
            logging::spread_from(router, sessions, &context.catalog, session);
        }
        (Method::ResourcesSubscribe, Target::Thing(thing)) => {
            tokio::select! {
                done = subscribe(router, call, thing, context, session) => done?,
                _ = lane.cancelled() => return Ok(Answered::GivenUp),
            }
        }
        (Method::ResourcesUnsubscribe, Target::Thing(thing)) => {
            let upstream = router.upstream(call, thing, context).map_err(|why| failed(call, thing, why))?;
            let who = Who::Session(Arc::clone(&session.name));
            router.subscriptions.unfollow(&upstream, &thing.native, (&session.principal.tenant, &who));
        }
        (_, _) => return Err(CatalogError::Method(call.frame.method_name().into()).into()),
    }
    Ok(Answered::ok(Pieces::one(code::success(id, "{}"))))
}

async fn subscribe(
    router: &Router,
    call: &Call,
    thing: &Thing,
    context: &Context,
    session: &Arc<Session>,
) -> Result<(), Error> {
    let upstream = router.upstream(call, thing, context).map_err(|why| failed(call, thing, why))?;
    let who = Who::Session(Arc::clone(&session.name));
    let party = Party::new(who, call, &context.view.server, Mouth::Session(Arc::clone(session)));
    let followed = router.subscriptions.follow(&upstream, &thing.native, &party, AGREED).await;
    // Whoever cleans up after a session may have done so a moment before it began to follow this.
    if session.ended().is_cancelled() {
        router.subscriptions.ended(session);
    }
    followed.map_err(|why| match why {
        SubscribeError::NotOffered => CatalogError::Subscription(thing.exposed.clone()).into(), // spec R-08
        SubscribeError::TooLong => CatalogError::Parameter("uri").into(),
        SubscribeError::TooMany { most } => LimitError::Subscriptions { most }.into(),
        SubscribeError::Upstream(why) => failed(call, thing, why),
    })
}

fn failed(call: &Call, thing: &Thing, why: upstream::UpstreamError) -> Error {
    let tool = call.method == Method::ToolsCall;
    Box::new(Failed { upstream: Arc::clone(&thing.upstream), why, tool }).into()
}
