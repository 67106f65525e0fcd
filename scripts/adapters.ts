import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/*
 * `npm run adapters`: writes `adapters/service_hook.py` and `adapters/service_mcp.py` from the parts in `adapters/src`.
 * People download each adapter as one file, so the parts are copied into the file and not imported. Each list below
 * gives the order of the parts in one file. If top-level code of a part uses a name, an earlier part must define this
 * name.
 */

const folder = new URL('../adapters/', import.meta.url)

const parts = {
  'service_hook.py': [
    'shared/limits',
    'shared/text',
    'hook/constants',
    'hook/answer',
    'hook/tool_names',
    'hook/event',
    'hook/arguments',
    'hook/command_line',
    'hook/prompts',
    'hook/typed_code',
    'hook/typed',
    'shared/json',
    'hook/json',
    'shared/settings',
    'shared/http',
    'hook/request',
    'shared/decision',
    'hook/organization',
    'hook/surroundings',
    'hook/pre',
    'hook/after',
    'hook/clients',
    'hook/entries',
    'hook/codex',
    'hook/gemini',
    'hook/copilot',
    'hook/opencode',
    'hook/files',
    'hook/interpreter',
    'hook/own_settings',
    'hook/starter_rules',
    'hook/install',
    'hook/doctor',
    'hook/doctor_environment',
    'hook/projects',
    'hook/doctor_tries',
    'hook/opencode_doctor',
    'hook/doctor_around',
    'hook/main',
  ],
  'service_mcp.py': [
    'shared/limits',
    'shared/text',
    'gateway/constants',
    'gateway/threads',
    'shared/json',
    'gateway/json',
    'gateway/messages',
    'shared/settings',
    'shared/http',
    'gateway/service',
    'shared/decision',
    'gateway/names',
    'gateway/servers',
    'gateway/processes',
    'gateway/http_address',
    'gateway/event_stream',
    'gateway/http_session',
    'gateway/shapes',
    'gateway/keywords',
    'gateway/upstream_process',
    'gateway/upstream',
    'gateway/upstream_http',
    'gateway/calls',
    'gateway/to_client',
    'gateway/from_client',
    'gateway/lists',
    'gateway/forwarding',
    'gateway/decisions',
    'gateway/server_requests',
    'gateway/gateway',
    'gateway/main',
  ],
} as const

type Adapter = keyof typeof parts
export const adapters = Object.keys(parts) as Adapter[]
const headers: Readonly<Record<Adapter, string>> = {
  'service_hook.py': 'hook/header',
  'service_mcp.py': 'gateway/header',
}

/**
 * Returns the text of an adapter. The text begins with the header, which has the docstring and imports. Each part
 * follows after a line with the name of the part.
 */
export function assembled(adapter: Adapter): string {
  const read = (part: string): string => readFileSync(new URL(`src/${part}.py`, folder), 'utf8').trimEnd()
  const sections = parts[adapter].map((part) => `${`# --- ${part} `.padEnd(120, '-')}\n\n${read(part)}`)
  return `${[read(headers[adapter]), ...sections].join('\n\n\n')}\n`
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  for (const adapter of adapters) {
    writeFileSync(new URL(adapter, folder), assembled(adapter))
    console.log(`wrote adapters/${adapter}`)
  }
}
