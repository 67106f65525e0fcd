"""VS Code. It has no settings of its own for hooks: it reads those of Claude Code and Copilot CLI."""

from ..client import Client, in_mcp_name


class VsCode(Client):
    name = agent = "vscode"
    installed_as = "copilot"
    tools = {
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
    }

    def sends(self, event):
        return "hookEventName" in event

    def server_of(self, tool):
        return in_mcp_name(tool)

    def denial(self, event, reason):
        return {"hookSpecificOutput": self.claude_denial(reason)}


client = VsCode()
