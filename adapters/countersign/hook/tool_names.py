"""The tools that the service knows by name."""

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
