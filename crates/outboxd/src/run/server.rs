//! Where a run listens for HTTP, if it does.

use std::net::SocketAddr;

use crate::cli::args::RunArgs;
use crate::options::AccessOptions;
use crate::plan::{HttpPlan, PipePlan, Plan};
use crate::publishers;
use crate::trouble::Trouble;

/// By flag, else by configuration; without the flag a run of some pipes leaves the address to the process that needs it.
pub(super) fn server(plan: &Plan, args: &RunArgs, chosen: &[&PipePlan]) -> Result<Option<HttpPlan>, Trouble> {
    if args.once {
        return Ok(None);
    }
    if let Some(listen) = args.listen {
        let http = plan.http.clone();
        let http = http.unwrap_or(HttpPlan { listen, token: None, access: AccessOptions::default() });
        if !listen.ip().is_loopback() {
            reachable(listen, &http)?;
        }
        return Ok(Some(HttpPlan { listen, ..http }));
    }
    let http = plan.http.clone();
    if http.is_some() && !publishers::are_served(plan, chosen) {
        tracing::info!(
            "not listening for HTTP: the chosen pipes have neither metrics nor a publisher; --listen ADDRESS makes it listen"
        );
        return Ok(None);
    }
    Ok(http)
}

/// What holds for `listen` of `[http]` holds for the flag: who can be reached by others asks for a login.
fn reachable(listen: SocketAddr, http: &HttpPlan) -> Result<(), Trouble> {
    let refused = |why: &str, help: &str| {
        Err(Trouble::usage(format!("--listen {listen}: anybody can reach it, and {why}"), help))
    };
    if http.access.anonymous.is_some() {
        let help = "listen on 127.0.0.1, or remove 'anonymous' from [http] and add [http.people.NAME]";
        return refused("'anonymous' lets them in", help);
    }
    if http.token.is_none() && http.access.people.is_empty() {
        let help = "add a token or [http.people.NAME] to the configuration, or listen on 127.0.0.1";
        return refused("nobody needs to sign in", help);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const BASE: &str = "[connections]\nshop = \"sqlite:shop.db\"\n[sources.s]\non = \"shop\"\n[sinks.o]\nstdout = true\n\
        [pipes.a]\nfrom = \"s\"\nto = \"o\"\n[pipes.b]\nfrom = \"s\"\nto = \"o\"\n";

    /// Where a run of one of two pipes listens.
    fn told(http: &str, listen: Option<&str>) -> Result<Option<String>, String> {
        let text = format!("{BASE}{http}");
        let checked = Plan::parse(Path::new("/srv/outboxd.toml"), &text, &|_| None).expect("it is valid");
        let listen = listen.map(|listen| listen.parse().expect("it is an address"));
        let args = RunArgs { once: false, pipe: vec!["a".to_owned()], listen };
        let server = server(&checked.plan, &args, &[&checked.plan.pipes["a"]]);
        server.map(|http| http.map(|http| http.listen.to_string())).map_err(|trouble| trouble.to_string())
    }

    #[test]
    fn d7_a_run_of_some_pipes_listens_where_it_is_told_to() {
        let http = "[http]\nlisten = \"127.0.0.1:8480\"\n";
        assert_eq!(told(http, None), Ok(None));
        for http in ["", http] {
            assert_eq!(told(http, Some("127.0.0.1:9")), Ok(Some("127.0.0.1:9".to_owned())));
            let refused = told(http, Some("0.0.0.0:9")).expect_err("it is refused");
            assert!(refused.contains("--listen 0.0.0.0:9: anybody can reach it"), "{refused}");
        }
        let anonymous = format!("{http}anonymous = \"viewer\"\ntoken = \"0123456789abcdef\"\n");
        let refused = told(&anonymous, Some("0.0.0.0:9")).expect_err("it is refused");
        assert!(refused.contains("'anonymous' lets them in"), "{refused}");
        assert!(told(&anonymous, Some("127.0.0.1:9")).is_ok());
        let token = format!("{http}token = \"0123456789abcdef\"\n");
        assert_eq!(told(&token, Some("0.0.0.0:9")), Ok(Some("0.0.0.0:9".to_owned())));
    }
}
