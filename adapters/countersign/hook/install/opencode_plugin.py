"""opencode: the plugin that asks before each call, and its place in the settings."""

import os

from ...shared.limits import Refused
from ..clients.opencode import NO_PROVIDER, PLUGIN_PART
from .entries import SECONDS, command_words, is_ours
from .files import look_up

PLUGIN_MARK = "countersign-asks"  # the running plugin adds a member with this name to opencode's settings in memory

PLUGIN = r"""// Written by `service_hook.py install`: opencode asks before each tool call, and a call that cannot be asked about is blocked.
import { spawn } from "node:child_process"

const hook = @HOOK@

/** Makes arguments unchangeable, so that the call runs with those that were judged. */
const frozen = (value) => {
  if (value !== null && typeof value === "object") Object.values(Object.freeze(value)).forEach(frozen)
  return value
}

/** Without variables with which the loader of programs starts something else. */
const environment = () =>
  Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^(LD_|DYLD_|GLIBC_TUNABLES$|PYTHON)/.test(name)))

/** Starts the hook's program without a shell. */
const run = (command, event, seconds, started = () => {}) =>
  new Promise((resolve) => {
    const [program, ...words] = hook.commands[command]
    const child = spawn(program, words, { env: environment(), stdio: "pipe", windowsHide: true })
    started(child)
    const said = { out: "", err: "" }
    const limit = setTimeout(() => child.kill("SIGKILL"), seconds * 1000)
    child.stdout.setEncoding("utf8").on("data", (text) => (said.out += text))
    child.stderr.setEncoding("utf8").on("data", (text) => (said.err += text))
    child.stdin.on("error", () => {})
    const end = (code) => {
      clearTimeout(limit)
      resolve({ ...said, code })
    }
    child.on("error", (error) => {
      said.err = String(error.message)
      end(null)
    })
    child.on("close", end)
    child.stdin.end(JSON.stringify(event))
  })

/** Only exit code 0 with this answer lets a call run. A program that ends early says nothing. */
const allows = ({ code, out }) => {
  try {
    return code === 0 && JSON.parse(out).permission === "allow"
  } catch {
    return false
  }
}

const shells = /^((\/usr|\/usr\/local|\/opt\/homebrew)?\/bin\/)?(bash|dash|fish|ksh|nu|pwsh|sh|zsh|powershell|cmd)$/
const plain = (name) => name.replace(/[^a-zA-Z0-9_-]/g, "_")

export default async ({ client, directory }, options) => {
  const roots = new Map()
  const open = new Map()
  const asking = new Map()
  let servers = []
  let refusal = null

  /** The session that a person started. Calls of its subagents count there, with its labels. */
  const rootOf = async (id) => {
    if (!roots.has(id)) {
      const { data } = await client.session.get({ path: { id } })
      if (data?.id !== id) throw new Error("opencode does not name the session of the call")
      roots.set(id, data.parentID ? await rootOf(data.parentID) : id)
    }
    return roots.get(id)
  }

  const eventOf = async (name, { tool, sessionID, callID }, args) => {
    const [server, other] = servers.filter((each) => tool.startsWith(plain(each) + "_"))
    if (other !== undefined) throw new Error(`countersign: the tool ${tool} may be one of ${server} or of ${other}: rename a server`)
    const context = { server_name: server, tool_name: tool.slice(plain(server ?? "").length + 1) }
    return {
      hook_event_name: name,
      session_id: await rootOf(sessionID),
      tool_name: tool,
      tool_input: args,
      tool_use_id: callID,
      cwd: directory,
      ...(server !== undefined && { mcp_context: context }),
    }
  }

  const report = async (event, failed) => {
    open.delete(event.tool_use_id)
    await run("post", { ...event, tool_response: { error: failed } }, 15).catch(() => {})
  }

  return {
    config: (settings) => {
      servers = Object.keys(settings.mcp ?? {})
      // `doctor` reads this in the settings that opencode shows.
      settings[hook.mark] = true
      // A project may name a program of its own here, which would then get every command.
      if (settings.shell !== undefined && !shells.test(settings.shell)) delete settings.shell
      if (hook.managed === null) return
      const others = settings.plugin_origins.filter(({ source }) => !source.startsWith(hook.managed))
      if (others.length > 0) {
        const names = others.map(({ spec }) => [spec].flat()[0]).join(", ")
        refusal = `only plugins of the managed settings may run, because others can change a call after it was judged: remove ${names}`
      }
      // Shell commands in a command's text run before any hook is asked.
      for (const command of Object.values(settings.command ?? {})) command.template = command.template.replaceAll("!`", "! `")
      if (options?.enabled_providers) settings.enabled_providers = options.enabled_providers
      else delete settings.enabled_providers
    },
    "tool.execute.before": async (input, output) => {
      if (refusal !== null) throw new Error("countersign: " + refusal)
      const event = await eventOf("tool.execute.before", input, frozen(output.args))
      const started = (child) => asking.set(input.callID, { child, session: input.sessionID })
      const answer = await run("pre", event, hook.timeout, started)
      asking.delete(input.callID)
      if (!allows(answer)) throw new Error(answer.err.trim() || `countersign: the hook gave no answer (exit code ${answer.code})`)
      open.set(input.callID, event)
    },
    "tool.execute.after": async (input, output) => {
      const failed = (output?.metadata?.exit ?? 0) !== 0
      await report(await eventOf("tool.execute.after", input, input.args), failed)
    },
    event: async ({ event }) => {
      // A call that its user gave up is withdrawn.
      const gone = event.type === "session.idle" ? event.properties.sessionID : undefined
      for (const { child, session } of asking.values()) if (session === gone) child.kill("SIGTERM")
      const part = event.type === "message.part.updated" ? event.properties.part : undefined
      const asked = part?.state?.status === "error" ? open.get(part.callID) : undefined
      if (asked !== undefined) await report({ ...asked, hook_event_name: "tool.execute.after" }, true)
    },
    dispose: async () => {
      const ended = [...new Set(roots.values())].map((id) => run("end", { session_id: id, hook_event_name: "dispose" }, 5))
      await Promise.allSettled(ended)
    },
  }
}
"""


def plugin_text(client, place, python):
    """Returns the text of the plugin's file."""
    import json

    commands = {each: command_words(place, python, client.name, each) for each in ("pre", "post", "end")}
    folder = os.path.dirname(client.settings_file(place)) + os.sep if place.managed else None
    hook = {"commands": commands, "timeout": SECONDS["pre"], "managed": folder, "mark": PLUGIN_MARK}
    return PLUGIN.replace("@HOOK@", json.dumps(hook))


def own_providers(settings):
    """Returns the administrator's own list of providers; None if there is none. The plugin restores this list."""
    found = settings.get("enabled_providers")
    if found != [NO_PROVIDER]:
        return found
    for entry in settings.get("plugin", []):
        if is_ours(entry) and isinstance(entry, list) and len(entry) > 1:
            return look_up(entry[1], ("enabled_providers",))
    return None


def with_plugin(client, place, before, settings):
    """Returns the managed settings with our plugin. Our plugin is the last one in the list, so that no other plugin
    undoes its changes to the settings."""
    beside = place.at(client.settings_file(place)) + "c"
    if os.path.exists(beside):
        raise Refused("`%s` is read after these settings: move it into opencode.json first" % beside)
    plugins = settings.get("plugin", [])
    if not isinstance(plugins, list):
        raise Refused("`plugin` is not a list: correct it first")
    from pathlib import PurePath

    ours = PurePath(client.settings_file(place, PLUGIN_PART)).as_uri()
    providers = own_providers(before)
    return dict(settings, plugin=plugins + [ours if providers is None else [ours, {"enabled_providers": providers}]])


def without_plugin(settings):
    plugins = settings.get("plugin")
    if not isinstance(plugins, list) or not any(map(is_ours, plugins)):
        return settings
    left = [each for each in plugins if not is_ours(each)]
    found = {key: value for key, value in settings.items() if key != "plugin" or left}
    return dict(found, plugin=left) if left else found
