//! `--login` and `--logout`: what a person does at a terminal, before and after clients are started.

use url::Url;

use super::{login::Login, proof::Proof, remote::Remote};
use crate::{cli::output, failure::Failure, run};

/// Logs in, so that clients that are started later find a token.
pub(super) fn log_in(remote: &Remote) -> Result<(), Failure> {
    let login = login_of(remote.proof())?;
    run::on_one_thread(async {
        let unavailable = |why: String| Failure::unavailable(why);
        let challenge = remote.challenge().await;
        let challenge = challenge.map_err(|trouble| unavailable(trouble.sentence(remote.url())))?;
        let Some(challenge) = challenge else {
            return Err(Failure::answer(format!("{} wants no login", remote.url())));
        };
        let path = login.log_in_now(&challenge).await;
        let path = path.map_err(|error| unavailable(format!("{}: {error}", remote.url())))?;
        output::complain(&format!("logged in; the token is kept in {}", path.display()));
        Ok(())
    })
}

/// Gives up what logins have left.
pub(super) fn log_out(server: &Url, proof: &Proof) -> Result<(), Failure> {
    let login = login_of(proof)?;
    let given_up = run::on_one_thread(async {
        login.log_out().await.map_err(|error| Failure::system(format!("{server}: {error}")))
    })?;
    if given_up == 0 {
        return Err(Failure::answer(format!("there is no login to {server}")));
    }
    output::complain(&format!("logged out of {server}"));
    Ok(())
}

fn login_of(proof: &Proof) -> Result<&Login, Failure> {
    match proof {
        Proof::Login(login) => Ok(login),
        Proof::Given(_) => {
            let why = "there is no login where a token is given, or where none can be kept: unset \
                       PORTCULLIS_TOKEN, and set HOME or XDG_STATE_HOME";
            Err(Failure::usage(why))
        }
    }
}
