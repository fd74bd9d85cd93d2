//! All processes of a run, and the ways from the load generator to one server.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use tempfile::TempDir;

use crate::{
    against::Against,
    ask::Work,
    failure::Failure,
    gateway::{Gateway, Upstream},
    load::{Closed, Demand},
    measure::{Contestant, Load},
    nginx::Nginx,
    open::Open,
    pipe::Pipe,
    process::{self, Process},
    regime::Regime,
    request::Site,
    row::{DIRECT, GATEWAY, NGINX},
    rows::{Loop, Place, Plan},
    session,
};

/// The echo and nginx in front of it, for all rows; gateways come and go.
#[derive(Debug)]
pub(crate) struct Stage {
    /// This program.
    program: PathBuf,
    gateway_program: PathBuf,
    nginx: Nginx,
    _echo: Process,
    port: u16,
    _folder: TempDir,
}

impl Stage {
    /// Starts the echo and nginx.
    pub(crate) fn set(gateway_program: PathBuf) -> Result<Stage, Failure> {
        let program = std::env::current_exe()?;
        let folder = tempfile::Builder::new().prefix("portcullis-bench-nginx-").tempdir()?;
        let (echo, port) = process::echo(&program)?;
        let nginx = Nginx::start(folder.path(), port)?;
        Ok(Stage { program, gateway_program, nginx, _echo: echo, port, _folder: folder })
    }

    /// The gateway's program.
    pub(crate) fn gateway_program(&self) -> &Path {
        &self.gateway_program
    }

    /// A gateway in front of a place, without rules and limits.
    pub(crate) fn gateway(&self, place: Place) -> Result<Gateway, Failure> {
        self.gateway_under(place, Regime::default())
    }

    /// A gateway in front of a place that applies these rules and limits.
    pub(crate) fn gateway_under(&self, place: Place, regime: Regime) -> Result<Gateway, Failure> {
        let upstream = match place {
            Place::Http(path) => Upstream::Url(format!("http://127.0.0.1:{}{path}", self.port)),
            Place::Stdio => Upstream::Stdio(place.tools()),
        };
        Gateway::start(&self.gateway_program, &upstream, regime)
    }

    /// The ways to the server of a row that do not lead through a gateway. nginx is asked with the same token as the
    /// gateway: what it passes on should be as large.
    pub(crate) async fn without(&self, plan: &Plan, token: &str) -> Result<Vec<Contestant>, Failure> {
        let Place::Http(path) = plan.place else {
            let pipe = Pipe::open(&self.program, plan.place.tools(), plan.connections)?;
            return Ok(vec![Contestant {
                name: DIRECT.to_owned(),
                load: Load::Pipe(Box::new(pipe)),
                pids: Vec::new(),
            }]);
        };
        let echo = SocketAddr::from(([127, 0, 0, 1], self.port));
        let mut ways = Vec::new();
        for (name, address, pids) in
            [(DIRECT, echo, Vec::new()), (NGINX, self.nginx.address(), self.nginx.pids())]
        {
            let site =
                Site { address, path: path.to_owned(), token: token.to_owned(), prefix: String::new() };
            ways.push(Contestant { name: name.to_owned(), load: load(&site, plan).await?, pids });
        }
        Ok(ways)
    }
}

/// The way through a gateway.
pub(crate) async fn through(gateway: &Gateway, plan: &Plan) -> Result<Contestant, Failure> {
    gateway.settled(plan.era, plan.place.tools()).await?;
    let load = load(gateway.site(), plan).await?;
    Ok(Contestant { name: GATEWAY.to_owned(), load, pids: vec![gateway.pid()] })
}

/// The way through another proxy. What its lists hold, and whether it has the tool `big`, is its own affair.
pub(crate) async fn other(against: &Against, plan: &Plan) -> Result<Option<Contestant>, Failure> {
    if plan.place == Place::Stdio || plan.work != Work::Echo {
        return Ok(None);
    }
    let mut site = against.site.clone();
    site.prefix = session::prefix(&site, plan.era).await.map_err(|failure| failure.of(&against.name))?;
    let load = load(&site, plan).await?;
    let pids = against.pid.into_iter().collect();
    Ok(Some(Contestant { name: against.name.clone(), load, pids }))
}

async fn load(site: &Site, plan: &Plan) -> Result<Load, Failure> {
    let Plan { era, work, connections, sessions, .. } = *plan;
    let demand = Demand { era, work, connections, sessions };
    Ok(match plan.pace {
        Loop::Closed => Load::Closed(Closed::open(site, demand).await?),
        Loop::Open(rate) => Load::Open(Open::open(site, demand, rate).await?),
    })
}
