//! A configuration in the making, and the folder it is written to.

use std::{
    fs,
    path::{Path, PathBuf},
};

use tempfile::TempDir;

use crate::{daemon::Daemon, script::Script, served::Served};

/// A configuration in the making: one tenant, `acme`, with scripted servers, and what further tenants there are.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// The tenant's name, unless it is `acme`.
    name: Option<String>,
    others: Vec<Setup>,
    upstreams: Vec<Entry>,
    reach: Reach,
    process: String,
    tenant: String,
    files: Vec<(String, String)>,
}

/// How a daemon reaches its scripted servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// It starts them, and speaks to them on their standard input and output.
    #[default]
    Stdio,
    /// They run already, and have a URL.
    Http,
}

#[derive(Clone, Debug)]
struct Entry {
    id: String,
    launch: Launch,
    yaml: String,
}

#[derive(Clone, Debug)]
enum Launch {
    Script(Script),
    /// The script runs already and has a URL, whatever the others do.
    Served(Script),
    /// The script runs as the child of a shell.
    Wrapped(Script),
    /// Whatever the YAML says.
    Written,
}

/// A written configuration, and the servers that run beside the daemon. Gone when dropped.
#[derive(Debug)]
pub struct Folder {
    home: TempDir,
    servers: Vec<Served>,
}

impl Setup {
    /// Nothing but defaults.
    pub fn new() -> Setup {
        Setup::default()
    }

    /// One upstream with this script.
    pub fn one(id: &str, script: Script) -> Setup {
        Setup::new().upstream(id, script)
    }

    /// One more upstream.
    pub fn upstream(self, id: &str, script: Script) -> Setup {
        self.upstream_with(id, script, "")
    }

    /// One more upstream with further keys, as lines of YAML.
    pub fn upstream_with(self, id: &str, script: Script, yaml: &str) -> Setup {
        self.entry(id, Launch::Script(script), yaml)
    }

    /// One more upstream with further keys, that runs already and has a URL.
    pub fn served(self, id: &str, script: Script, yaml: &str) -> Setup {
        self.entry(id, Launch::Served(script), yaml)
    }

    /// One more upstream, whose server is the child of a shell, as with `npx`.
    pub fn wrapped(self, id: &str, script: Script) -> Setup {
        self.entry(id, Launch::Wrapped(script), "")
    }

    /// One more upstream, all of whose keys are given as lines of YAML.
    pub fn upstream_as(self, id: &str, yaml: &str) -> Setup {
        self.entry(id, Launch::Written, yaml)
    }

    /// How its scripted servers are reached.
    pub fn reached(mut self, reach: Reach) -> Setup {
        self.reach = reach;
        self
    }

    fn entry(mut self, id: &str, launch: Launch, yaml: &str) -> Setup {
        self.upstreams.push(Entry { id: id.to_owned(), launch, yaml: yaml.to_owned() });
        self
    }

    /// The name of its tenant.
    pub fn named(self, name: &str) -> Setup {
        Setup { name: Some(name.to_owned()), ..self }
    }

    /// A further tenant: its name, its servers, whose ids no other tenant uses, and the lines of its file.
    pub fn beside(mut self, other: Setup) -> Setup {
        self.others.push(other);
        self
    }

    /// Lines of the process's file.
    pub fn process(mut self, yaml: &str) -> Setup {
        self.process += yaml;
        self.process.push('\n');
        self
    }

    /// Lines of the tenant's file.
    pub fn tenant(mut self, yaml: &str) -> Setup {
        self.tenant += yaml;
        self.tenant.push('\n');
        self
    }

    /// One more file in its folder.
    pub fn file(mut self, path: &str, text: &str) -> Setup {
        self.files.push((path.to_owned(), text.to_owned()));
        self
    }

    /// Writes it, scripts included, with these ports.
    pub fn write(&self, ports: (u16, u16)) -> Folder {
        let mut folder = Folder { home: tempfile::tempdir().unwrap(), servers: Vec::new() };
        let (listen, admin) = ports;
        let process = format!(
            "listen: 127.0.0.1:{listen}\nadmin: {{ listen: \"127.0.0.1:{admin}\" }}\n{}",
            self.process
        );
        fs::write(folder.config(), process).unwrap();
        fs::create_dir(folder.path().join("tenants")).unwrap();
        self.write_tenant(&mut folder);
        folder
    }

    fn write_tenant(&self, folder: &mut Folder) {
        let name = self.name.as_deref().unwrap_or("acme");
        let mut tenant = format!("tenant: {name}\nupstreams:\n");
        for Entry { id, launch, yaml } in &self.upstreams {
            tenant += &format!("  {id}:\n");
            if let (Launch::Script(script), Reach::Http) | (Launch::Served(script), _) = (launch, self.reach)
            {
                let home = folder.script(id);
                let (server, url) = Served::start(python(), &script.install(id, &home), &home);
                folder.servers.push(server);
                tenant += &format!("    url: {url}\n");
            } else if let Launch::Script(script) | Launch::Wrapped(script) = launch {
                let args = script.install(id, &folder.script(id));
                let (command, args) = match launch {
                    Launch::Wrapped(_) => {
                        let line = format!("{} {}; exit $$?", python(), args.join(" "));
                        ("sh", serde_json::json!(["-c", line]))
                    }
                    Launch::Script(_) | Launch::Served(_) | Launch::Written => {
                        (python(), serde_json::json!(args))
                    }
                };
                tenant += &format!("    command: {command}\n    args: {args}\n");
            }
            for line in yaml.lines() {
                tenant += &format!("    {line}\n");
            }
        }
        for (path, text) in &self.files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        fs::write(folder.path().join(format!("tenants/{name}.yaml")), tenant + &self.tenant).unwrap();
        self.others.iter().for_each(|other| other.write_tenant(folder));
    }

    /// Starts a daemon with it, and waits until it is ready. `program` is the binary under test.
    pub fn start(&self, program: &str) -> Daemon {
        Daemon::start(self, program)
    }
}

impl Folder {
    /// Where it is.
    pub fn path(&self) -> &Path {
        self.home.path()
    }

    /// The main file.
    pub fn config(&self) -> PathBuf {
        self.path().join("portcullis.yaml")
    }

    /// Where the scripted server of this id keeps its things.
    pub(crate) fn script(&self, id: &str) -> PathBuf {
        self.path().join("scripts").join(id)
    }

    /// The audit file, wherever it is written by default.
    pub fn audit(&self) -> PathBuf {
        self.path().join("state/audit/audit.jsonl")
    }
}

/// Python itself where it usually is: what stands before it on a developer's `PATH` may be a slow script.
fn python() -> &'static str {
    let usual = ["/usr/bin/python3", "/usr/local/bin/python3"];
    usual.into_iter().find(|path| Path::new(path).exists()).unwrap_or("python3")
}
