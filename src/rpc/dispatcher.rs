//! From a request to its handler.
//!
//! Owns the order of the checks: known method, session, CSRF token, role, and only then the parameters
//! and the handler. No handler is reached in another way.

use serde_json::{Map, Value, json};

use super::auth::{Client, Login, Token, token};
use super::error::{ErrorCode, RpcError};
use super::events::{Changed, Event};
use super::message::Request;
use super::methods::{self, Access, Method};
use super::{Services, assistant_chat, auth_methods, mesh, system};
use std::sync::Arc;

/// One authorised call, as a handler sees it.
pub(super) struct Call<'a> {
    pub services: &'a Arc<Services>,
    pub client: &'a Client,
    login: Option<Login>,
    /// Set by a handler that opened a session: goes into the cookie.
    pub new_token: Option<Token>,
}

impl Call<'_> {
    /// The session; an error only for methods that need none.
    pub fn login(&self) -> Result<&Login, RpcError> {
        self.login.as_ref().ok_or_else(not_logged_in)
    }
}

/// What came of a request.
pub(super) struct Outcome {
    pub result: Result<Value, RpcError>,
    pub new_token: Option<Token>,
}

/// Checks and runs. `csrf` is the content of `X-CSRF-Token`.
pub(super) async fn dispatch(
    services: &Arc<Services>,
    client: &Client,
    csrf: Option<&str>,
    request: Request,
) -> Outcome {
    let known = methods::find(&request.method).map(|method| method.name);
    let login = match authorise(services, client, csrf, &request.method) {
        Ok(login) => login,
        Err(error) => {
            let result = Err(error);
            services.figures.call(known, &result);
            return Outcome { result, new_token: None };
        }
    };
    let mut call = Call { services, client, login, new_token: None };
    let result = run(&mut call, &request.method, request.params).await;
    services.figures.call(known, &result);
    if result.is_ok()
        && let Some(what) = changed_by(&request.method)
    {
        services.events.publish(Event::Changed(what));
    }
    Outcome { result, new_token: call.new_token }
}

/// The session under which the method may run; `None` for one that needs no session.
fn authorise(
    services: &Services,
    client: &Client,
    csrf: Option<&str>,
    name: &str,
) -> Result<Option<Login>, RpcError> {
    let method: &Method = methods::find(name).ok_or_else(|| no_such_method(name))?;
    if method.access == Access::Open {
        return Ok(None);
    }
    let login = services.auth.authenticate(client).ok_or_else(|| {
        not_logged_in().with(json!({ "needs_setup": services.auth.needs_setup() }))
    })?;
    if method.csrf && !csrf.is_some_and(|given| token::same_text(given, &login.csrf)) {
        return Err(RpcError::new(
            ErrorCode::CsrfToken,
            "the header X-CSRF-Token is missing or not this session's: ask auth.whoami for it",
        ));
    }
    if !login.role.can_access(name) {
        return Err(RpcError::new(
            ErrorCode::Forbidden,
            format!("the role {} may not call {name}", login.role.as_str()),
        ));
    }
    Ok(Some(login))
}

async fn run(
    call: &mut Call<'_>,
    method: &str,
    params: Map<String, Value>,
) -> Result<Value, RpcError> {
    match method.split_once('.').map(|(area, _)| area) {
        Some("auth") => auth_methods::handle(call, method, params).await,
        Some("assistant") => assistant_chat::handle_assistant(call, method, params).await,
        Some("mesh") => mesh::handle(call, method, params).await,
        Some("system") => system::handle(call, method, params).await,
        _ => Err(no_such_method(method)),
    }
}

/// What pages should fetch again after that call.
fn changed_by(method: &str) -> Option<Changed> {
    match method {
        "auth.login" | "auth.setup" | "auth.logout" | "auth.revoke" | "auth.set-password" => {
            Some(Changed::Sessions)
        }
        "assistant.grants-set" => Some(Changed::Grants),
        "mesh.assistant-configure" | "mesh.peer-accept-key" => Some(Changed::Contacts),
        _ => None,
    }
}

fn not_logged_in() -> RpcError {
    RpcError::new(ErrorCode::NotLoggedIn, "log in first: there is no session, or it is over")
}

pub(super) fn no_such_method(name: &str) -> RpcError {
    let name: String = name.chars().filter(|c| c.is_ascii_graphic()).collect();
    RpcError::new(ErrorCode::MethodNotFound, format!("there is no method `{name}`"))
}
