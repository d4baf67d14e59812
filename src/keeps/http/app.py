"""The HTTP application: the shell, the routes, and what they share."""

from __future__ import annotations

import hmac

from fastapi import FastAPI

from keeps.http.idempotency import Reservations
from keeps.http.routes import (
    audit,
    collections,
    contexts,
    controls,
    entities,
    facts,
    forget,
    health,
    inbox,
    index,
    inspect,
    keys,
    managed,
    me,
    memories,
    principals,
    query,
    reserved,
    runs,
    scopes,
    sessions,
    settings,
    traces,
)
from keeps.http.shell import ShellSettings, hosts_for, new_app
from keeps.services.runtime import Runtime
from keeps.wire.pages import Cursors

# Management comes before the data plane, whose first segment would take any name; within a file, literal
# segments come before parameters.
_ROUTERS = (
    health.router,
    contexts.router,
    index.management,
    managed.router,
    reserved.management,
    me.router,
    controls.router,
    settings.router,
    audit.router,
    index.router,
    facts.router,
    query.router,
    inbox.router,
    memories.router,
    forget.router,
    sessions.router,
    entities.router,
    collections.router,
    inspect.router,
    traces.router,
    runs.router,
    scopes.router,
    principals.router,
    keys.router,
    reserved.router,
)


def create_app(rt: Runtime, *, host: str = "127.0.0.1") -> FastAPI:
    """The application for `rt`, facing the network as a server bound to `host` does.

    It neither opens nor closes `rt`: whoever made it does.
    """
    config = rt.config
    app = new_app(
        ShellSettings(
            allowed_hosts=hosts_for(host, config.allowed_hosts),
            cors_origins=config.cors_origins,
            max_in_flight=config.max_in_flight,
            max_body_bytes=config.max_body_bytes,
            legacy_list_user_agents=config.legacy_list_user_agents,
        )
    )
    app.state.rt = rt
    app.state.reservations = Reservations()
    app.state.cursors = Cursors(hmac.digest(rt.pepper, b"cursors", "sha256"))
    for router in _ROUTERS:
        app.include_router(router)
    return app
