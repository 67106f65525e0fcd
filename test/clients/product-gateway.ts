import { appendFileSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gatewayFile, odd, python } from '../adapters/gateway-files.ts'
import type { AgentClient, Place } from './client.ts'
import { change } from './machine.ts'
import { settingsOf } from './opencode.ts'
import { serviceEnv, type ServiceSettings } from './product-hook.ts'
import type { ToolCall } from './script.ts'

/** The path of the odd server's log: one line per message that the server has read. */
export const gatewayLog = ({ home }: Place): string => join(home, 'log')

export interface GatewaySettings extends ServiceSettings {
  /** The misbehaviour of the odd server behind the gateway. */
  readonly said?: object
  /** Replaces `service_mcp.py` and the interpreter's arguments before it. */
  readonly program?: readonly string[]
  /** Codex's limit for one call, in seconds; default 300. */
  readonly patience?: number
}

/** Adds the gateway to the client under the name `svc`, in front of the odd server. */
export function installGateway(client: AgentClient, place: Place, settings: GatewaySettings): void {
  const { said, program = ['-I', '-S', gatewayFile], patience, ...service } = settings
  const { home } = place
  const servers = join(home, 'servers.json')
  writeFileSync(servers, JSON.stringify({ mcpServers: { odd: odd({ log: gatewayLog(place), ...said }) } }))
  const args = [...program, '--config', servers]
  const env = serviceEnv(service)
  const entry = { command: python, args, env }
  if (client.name === 'claude') {
    writeFileSync(join(home, '.claude.json'), JSON.stringify({ mcpServers: { svc: entry } }))
    const file = join(home, '.claude', 'settings.json')
    const known = JSON.parse(readable(file) || '{}') as object
    writeFileSync(file, JSON.stringify({ ...known, permissions: { allow: ['mcp__svc'] } }))
  } else if (client.name === 'codex') {
    const pairs = Object.entries(env).map(([name, value]) => `${name} = ${JSON.stringify(value)}`)
    const lines = [
      '[mcp_servers.svc]',
      `command = ${JSON.stringify(python)}`,
      `args = ${JSON.stringify(args)}`,
      // Codex's default is too short for a busy machine.
      'startup_timeout_sec = 120',
      ...(patience === undefined ? [] : [`tool_timeout_sec = ${patience}`]),
    ]
    const all = [...lines, `env = { ${pairs.join(', ')} }`]
    appendFileSync(join(home, '.codex', 'config.toml'), `${all.join('\n')}\n`)
  } else if (client.name === 'copilot') {
    const svc = { type: 'local', ...entry, tools: ['*'] }
    writeFileSync(join(home, '.copilot', 'mcp-config.json'), JSON.stringify({ mcpServers: { svc } }))
  } else if (client.name === 'opencode') {
    const svc = {
      type: 'local',
      command: [python, ...args],
      environment: env,
      enabled: true,
      timeout: 120_000,
    }
    change(settingsOf(place), { mcp: { svc } })
  } else {
    const file = join(home, '.gemini', 'settings.json')
    const known = JSON.parse(readFileSync(file, 'utf8')) as object
    writeFileSync(file, JSON.stringify({ ...known, mcpServers: { svc: { ...entry, trust: true } } }))
  }
}

/** A file's text; empty if it does not exist. */
export const readable = (file: string): string => {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return ''
  }
}

/** A call of the gateway's tool, by the client's name for it. */
export const through = (client: AgentClient, tool: string, input: ToolCall['input'] = {}): ToolCall => ({
  tool:
    { claude: 'mcp__svc__', codex: 'mcp__svc.', gemini: 'mcp_svc_', copilot: 'svc-', opencode: 'svc_' }[
      client.name
    ] + tool,
  input,
})
