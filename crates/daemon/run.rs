//! Start and drain: the order, written down once.

use std::{future::Future, io, path::PathBuf, sync::Arc, time::Duration};

use config::Config;
use gateway::Gateway;
use tokio::{
    net::TcpListener,
    signal::unix::{Signal, SignalKind, signal},
    time::timeout,
};

use crate::{
    admin::{self, Admin},
    descriptors,
    failure::{Exit, Failure},
    key::Key,
    lanes::Lanes,
    listen::{self, Stop, Terms},
    reload::Reload,
    tls::Tls,
    transport::streamable_http::StreamableHttp,
};

/// What a drain may take beyond the time that running calls have: upstreams are stopped and records written in it.
const WIND_UP: Duration = Duration::from_secs(10);

/// After the drain, connections have so long to carry away their last bytes. Idle ones are closed at once.
const LAST_BYTES: Duration = Duration::from_secs(5);

/// The two listeners, bound before anything else is started.
pub(crate) struct Doors {
    pub(crate) clients: TcpListener,
    pub(crate) operators: TcpListener,
}

impl Doors {
    /// Binds both listeners as configured.
    pub(crate) async fn bind(config: &Config) -> Result<Doors, Failure> {
        let clients = listen::bind(config.listen, "`listen` in the configuration").await?;
        let operators = listen::bind(config.admin, "`admin.listen` in the configuration").await?;
        Ok(Doors { clients, operators })
    }
}

/// Runs a future on a runtime of all cores, which ends with it.
pub(crate) fn on_runtime(work: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::system(format!("cannot start the runtime: {error}")))?;
    let ended = runtime.block_on(work);
    // Whoever asked for an end at once must not wait for a thread that is stuck in a system call.
    runtime.shutdown_background();
    ended
}

/// How many threads serve clients: one a core. Two at least, since one may be held by a disk that does not take its
/// audit line (ADR 0023).
fn threads() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from).max(2)
}

/// Runs what a command of the operator waits for: one conversation needs one thread.
pub(crate) fn on_one_thread<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::system(format!("cannot start the runtime: {error}")))?;
    runtime.block_on(work)
}

/// Runs the gateway until a signal asks it to stop. `ready` is called when clients are served.
pub(crate) async fn run(
    config: Config,
    reload: Reload,
    doors: Doors,
    ready: impl FnOnce(),
) -> Result<(), Failure> {
    let mut signals = Signals::watch()?;
    descriptors::raise(&config);
    let config = Arc::new(config);

    let mut terms = Terms::of_clients(&config)?;
    let lanes = Lanes::start(threads()).map_err(|error| Failure::system(format!("cannot start: {error}")))?;
    // Ours to the end: upstreams that were started for a caller live there, and are stopped when no connection is left.
    let lanes = Arc::new(lanes);
    terms.lanes = Some(Arc::clone(&lanes));
    let gateway = tokio::select! {
        opened = Gateway::open(Arc::clone(&config), this_program()?) => opened,
        _ = signals.next() => return Ok(()),
    };
    let gateway = gateway.map_err(|error| Failure::system(format!("cannot start: {error}")))?;

    let clients = Arc::new(StreamableHttp::new(&config, Arc::clone(&gateway)));
    let key = Key::open(&config.state_dir)?;
    let admin = Arc::new(Admin::new(&config, key, Arc::clone(&gateway)));
    let (stop_clients, stop_operators) = (Stop::default(), Stop::default());
    let tls = terms.tls.clone();
    let stopped = stop_clients.clone();
    let mut serving = tokio::spawn(async move {
        let beating = Arc::clone(&clients);
        tokio::select! {
            () = listen::serve(doors.clients, clients, terms, stopped) => (),
            () = beating.beat() => (),
        }
    });
    let operating = tokio::spawn(listen::serve(
        doors.operators,
        Arc::clone(&admin),
        Terms::plain(admin::CONNECTIONS),
        stop_operators.clone(),
    ));
    tracing::info!(listen = %config.listen, admin = %config.admin, "serving");
    ready();

    let signal = tokio::select! {
        signal = signals.next() => signal,
        () = reload.follow(Arc::clone(&gateway)) => return Err(Failure::system("nobody follows the files any more")),
        error = follow(tls) => return Err(Failure::system(format!("cannot follow the certificate: {error}"))),
        _ = &mut serving => return Err(Failure::system("the listener ended unexpectedly: the log says why")),
    };
    tracing::info!(
        signal = signal.name,
        "stopping: running calls are finished, a second signal ends at once"
    );

    let drain = async {
        // Balancers look at /readyz, clients at the port: both are told before anything is waited for (bug B85).
        admin.drains();
        stop_clients.refuse.cancel();
        // Connections stay open meanwhile: a running call may be waiting for an answer that its client sends on one.
        if timeout(config.drain + WIND_UP, gateway.drain()).await.is_err() {
            tracing::warn!("not everything had ended in time");
        }
        stop_clients.finish.cancel();
        let _ = timeout(LAST_BYTES, serving).await;
        // Last, so that a probe can see the drain to its end.
        stop_operators.refuse.cancel();
        stop_operators.finish.cancel();
        let _ = timeout(LAST_BYTES, operating).await;
    };
    tokio::select! {
        () = drain => {
            tracing::info!("stopped");
            Ok(())
        }
        second = signals.next() => Err(Failure::at_once(second.exit)),
    }
}

/// Follows the certificate while there is one, and never ends otherwise.
async fn follow(tls: Option<Arc<Tls>>) -> io::Error {
    match tls {
        Some(tls) => tls.follow().await,
        None => std::future::pending().await,
    }
}

/// Our own executable: it is also the supervisor of every upstream process.
pub(crate) fn this_program() -> Result<PathBuf, Failure> {
    std::env::current_exe()
        .map_err(|error| Failure::system(format!("cannot tell where this program is: {error}")))
}

/// The signals that ask us to stop.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

struct Asked {
    name: &'static str,
    exit: Exit,
}

impl Signals {
    fn watch() -> Result<Signals, Failure> {
        let watch =
            |kind| signal(kind).map_err(|error| Failure::system(format!("cannot watch signals: {error}")));
        Ok(Signals { terminate: watch(SignalKind::terminate())?, interrupt: watch(SignalKind::interrupt())? })
    }

    async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.terminate.recv() => Asked { name: "SIGTERM", exit: Exit::Terminated },
            _ = self.interrupt.recv() => Asked { name: "SIGINT", exit: Exit::Interrupted },
        }
    }
}
