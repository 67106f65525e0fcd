# The clients' names of tools, and the names that Claude Code uses for the same tools.

# Maps the names of each client's own tools to the names that Claude Code uses for the same tools. So one rule covers
# all clients. A name that is not here stays unchanged. If the service does not know this name either, the call counts
# as a write.
TOOL_NAMES = {
    "codex": {"apply_patch": "Edit", "spawn_agent": "Agent", "view_image": "Read", "shell": "Bash"},
    "gemini": {
        "run_shell_command": "Bash",
        "read_file": "Read",
        "read_many_files": "Read",
        "write_file": "Write",
        "replace": "Edit",
        "list_directory": "LS",
        "glob": "Glob",
        "grep_search": "Grep",
        "search_file_content": "Grep",
        "web_fetch": "WebFetch",
        "google_web_search": "WebSearch",
        "invoke_agent": "Agent",
        "activate_skill": "Skill",
        "write_todos": "TodoWrite",
        "read_background_output": "TaskOutput",
    },
    "copilot": {
        "bash": "Bash",
        "powershell": "PowerShell",
        "read_bash": "TaskOutput",
        "read_powershell": "TaskOutput",
        "stop_bash": "TaskStop",
        "stop_powershell": "TaskStop",
        "write_bash": "write_stdin",
        "write_powershell": "write_stdin",
        "view": "Read",
        "create": "Write",
        "edit": "Edit",
        "apply_patch": "Edit",
        "glob": "Glob",
        "grep": "Grep",
        "rg": "Grep",
        "task": "Agent",
        "web_fetch": "WebFetch",
        "web_search": "WebSearch",
        "skill": "Skill",
    },
    "cursor": {"Shell": "Bash", "Task": "Agent", "beforeShellExecution": "Bash", "beforeReadFile": "Read"},
    "vscode": {
        "run_in_terminal": "Bash",
        "runTerminalCommand": "Bash",
        "runInTerminal": "Bash",
        "get_terminal_output": "TaskOutput",
        "read_file": "Read",
        "readFile": "Read",
        "create_file": "Write",
        "createFile": "Write",
        "replace_string_in_file": "Edit",
        "multi_replace_string_in_file": "Edit",
        "insert_edit_into_file": "Edit",
        "apply_patch": "Edit",
        "editFiles": "Edit",
        "edit_notebook_file": "NotebookEdit",
        "list_dir": "LS",
        "file_search": "Glob",
        "grep_search": "Grep",
        "semantic_search": "Grep",
        "fetch_webpage": "WebFetch",
        "fetch": "WebFetch",
        "runSubagent": "Agent",
    },
    "opencode": {
        "bash": "Bash",
        "read": "Read",
        "glob": "Glob",
        "grep": "Grep",
        "list": "LS",
        "write": "Write",
        "edit": "Edit",
        "apply_patch": "Edit",
        "lsp": "LSP",
        "webfetch": "WebFetch",
        "websearch": "WebSearch",
        "task": "Agent",
        "skill": "Skill",
        "todowrite": "TodoWrite",
        "question": "AskUserQuestion",
        "plan_exit": "ExitPlanMode",
        "list_mcp_resources": "ListMcpResourcesTool",
        "list_mcp_resource_templates": "ListMcpResourcesTool",
        "read_mcp_resource": "ReadMcpResourceTool",
    },
}


# The names under which the service knows tools that give commands to a shell. For them the service is told the folder,
# and for tools that it does not know, because they may be shells too.
SHELL_TOOLS = (
    "Bash Monitor PowerShell powershell bash Shell shell local_shell shell_command exec_command write_stdin "
    "run_shell_command run_in_terminal runInTerminal runTerminalCommand run_terminal_cmd"
).split()
# The other tools that the service knows by name.
OTHER_TOOLS = (
    "Read Grep Glob LS NotebookRead LSP read_file read_many_files list_directory glob grep grep_search "
    "search_file_content view view_image file_search list_dir BashOutput TaskOutput read_background_output "
    "semantic_search WebFetch WebSearch web_fetch google_web_search fetch_webpage ReadMcpResourceTool "
    "ReadMcpResourceDirTool ListMcpResourcesTool ToolSearch ListAgents TaskGet TaskList CronList "
    "WaitForMcpServers Edit MultiEdit Write NotebookEdit apply_patch write_file replace create edit "
    "create_file create_directory insert_edit_into_file replace_string_in_file Agent Task TaskStop KillShell "
    "KillBash SendMessage AskUserQuestion CronCreate CronDelete EnterPlanMode EnterWorktree ExitPlanMode "
    "ExitWorktree ProposeGoal ProposeSkills RefreshMcpTools ReportFindings ScheduleWakeup TaskCreate "
    "TaskUpdate TodoWrite spawn_agent update_plan invoke_agent save_memory write_todos task write_agent "
    "PushNotification SendUserFile Artifact RemoteTrigger Workflow sql Skill activate_skill skill"
).split()


def canonical_name(dialect, tool, mcp_context=None):
    """Returns Claude Code's name of a tool. For a tool of an MCP server, this name is `mcp__<server>__<tool>`."""
    # opencode's own tools come first. Otherwise a project could name a server `apply`, and `apply_patch` would count as
    # a tool of this server.
    own_first = dialect == "opencode" and tool in TOOL_NAMES[dialect]
    if dialect in ("gemini", "opencode") and isinstance(mcp_context, dict) and not own_first:
        server, own = mcp_context.get("server_name"), mcp_context.get("tool_name")
        if isinstance(server, str) and isinstance(own, str):
            return "mcp__" + token(server) + "__" + token(own)
    known = TOOL_NAMES.get(dialect, {}).get(tool)
    if known is not None:
        return known
    if tool.startswith("mcp__"):
        return tool
    if dialect in ("gemini", "vscode") and tool.startswith("mcp_"):
        server, _, own = tool[4:].partition("_")
        return "mcp__" + token(server) + "__" + token(own) if own else tool
    if dialect == "copilot" and "-" in tool:
        server, own = copilot_server(tool)
        return "mcp__" + token(server) + "__" + token(own)
    if dialect == "cursor" and tool.startswith("MCP:"):
        return "mcp__cursor__" + token(tool[4:].strip())
    return tool


def copilot_server(tool):
    """Splits a name into server and tool at the first hyphen. Example: `my-mail-send_message` becomes `my` and
    `mail-send_message`. The server may really be `my-mail`, because both parts may have hyphens. But every verb stays
    in the tool's name, where rules look for verbs that send data. The server `github-mcp-server` is known, so its name
    is not split."""
    builtin = "github-mcp-server"
    if tool.startswith(builtin + "-"):
        return builtin, tool[len(builtin) + 1 :]
    server, _, own = tool.partition("-")
    return server, own
