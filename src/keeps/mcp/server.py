"""The server of the Model Context Protocol: lists the tools and calls them, over whatever carries the messages."""

from __future__ import annotations

import logging
from collections.abc import Callable
from importlib.metadata import version
from typing import Any, TypeAlias

from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
    ToolAnnotations,
)

from keeps.client import Client
from keeps.core.errors import Invalid
from keeps.mcp import tools

Request: TypeAlias = ServerRequestContext[Any, Any]

_log = logging.getLogger(__name__)


def server_for(memory_of: Callable[[Request], Client]) -> Server[Any]:
    """A server whose calls go to the memory that `memory_of` finds for a request."""

    async def list_tools(ctx: Request, params: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=_LISTED)

    async def call_tool(ctx: Request, params: CallToolRequestParams) -> CallToolResult:
        tool = tools.BY_NAME.get(params.name)
        if tool is None:
            raise MCPError(METHOD_NOT_FOUND, f"there is no such tool: there are {', '.join(tools.BY_NAME)}")
        try:
            shown = await tool.act(memory_of(ctx), params.arguments)
        except Invalid as error:
            raise MCPError(INVALID_PARAMS, error.message) from None
        except Exception as error:  # noqa: BLE001 - the library would send its message on, and write it into the log
            _log.error("tool %s failed: %s", tool.name, type(error).__name__)
            raise MCPError(INTERNAL_ERROR, "internal error") from None
        return CallToolResult(
            content=[TextContent(text=shown.text)], structured_content=shown.data, is_error=shown.failed
        )

    return Server(
        "keeps",
        version=version("keeps"),
        title="keeps: memory",
        instructions=tools.INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        get_tool_input_schema={tool.name: tool.input_schema for tool in tools.TOOLS}.get,
    )


def _listed(tool: tools.Tool) -> Tool:
    return Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        annotations=ToolAnnotations(
            title=tool.title,
            read_only_hint=tool.reads,
            destructive_hint=tool.destroys,
            idempotent_hint=tool.repeats,
            open_world_hint=False,
        ),
    )


_LISTED = [_listed(tool) for tool in tools.TOOLS]
