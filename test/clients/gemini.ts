import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { AgentClient, HookCommand, Place } from './client.ts'
import { events, lastWords, type Calls, type Conversation, type Dialect, type ToolResult } from './script.ts'

interface Part {
  readonly text?: string
  readonly functionCall?: { readonly id?: string }
  readonly functionResponse?: { readonly id?: string; readonly response?: unknown }
}
interface Request {
  readonly contents: readonly { role: string; parts: readonly Part[] }[]
  readonly tools?: readonly unknown[]
}

/** generateContent in the form that Gemini CLI uses. */
const google: Dialect = {
  read(path, body): Conversation | null {
    const { contents, tools = [] } = body as Request
    if (!path.includes(':streamGenerateContent') || tools.length === 0) return null
    const results = new Map<string, Omit<ToolResult, 'script'>>()
    let words = ''
    let turns = 0
    for (const [place, { role, parts }] of contents.entries()) {
      if (role === 'model' && parts.some((part) => part.functionCall !== undefined)) turns += 1
      if (role !== 'user') continue
      for (const [index, { text = '', functionResponse }] of parts.entries()) {
        words += `\n${text}`
        if (functionResponse === undefined) continue
        results.set(functionResponse.id ?? `${place}/${index}`, {
          text: JSON.stringify(functionResponse.response),
          isError: null,
        })
      }
    }
    return { words, turns, results }
  },
  answer(calls: Calls, id: string): string {
    const parts =
      calls.length === 0
        ? [{ text: lastWords }]
        : calls.map(({ tool, input }, index) => ({
            functionCall: { id: `${id}_${index}`, name: tool, args: input },
          }))
    const usageMetadata = { promptTokenCount: 1, candidatesTokenCount: 1, totalTokenCount: 2 }
    return events([
      { candidates: [{ content: { role: 'model', parts }, finishReason: 'STOP' }], usageMetadata },
    ])
  },
}

const settingsOf = ({ home }: Place): string => join(home, '.gemini', 'settings.json')

/** Gemini CLI, `gemini -p`. */
export const gemini: AgentClient = {
  name: 'gemini',
  dialect: google,
  prepare: (place, _url, trusted) => {
    mkdirSync(join(place.home, '.gemini'))
    const settings = {
      security: { auth: { selectedType: 'gemini-api-key' } },
      general: { enableAutoUpdate: false },
      privacy: { usageStatisticsEnabled: false },
      ...(trusted ? {} : { tools: { confirmationRequired: ['run_shell_command'] } }),
    }
    writeFileSync(settingsOf(place), JSON.stringify(settings))
  },
  hook: (place, { pre, post, end }) => {
    const settings = JSON.parse(readFileSync(settingsOf(place), 'utf8')) as object
    const hooks = {
      ...(pre && { BeforeTool: [group(pre)] }),
      ...(post && { AfterTool: [group(post)] }),
      ...(end && { SessionEnd: [group(end)] }),
    }
    writeFileSync(settingsOf(place), JSON.stringify({ ...settings, hooks }))
  },
  args: ({ work }, prompt, trusted) => [
    ...['-p', prompt, '-m', 'gemini-2.5-flash', '--output-format', 'json', '--include-directories', work],
    ...['--approval-mode', trusted ? 'yolo' : 'default'],
  ],
  env: (url) => ({
    GEMINI_API_KEY: 'fake-key',
    GOOGLE_GEMINI_BASE_URL: url,
    GEMINI_CLI_TRUST_WORKSPACE: 'true',
    // Otherwise Gemini CLI restarts itself with a larger heap, which takes two seconds.
    GEMINI_CLI_NO_RELAUNCH: 'true',
    ...(process.env['NODE_COMPILE_CACHE'] !== undefined && {
      NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'],
    }),
  }),
  denials: () => null,
  sessionId: (stdout) => (JSON.parse(stdout) as { session_id: string }).session_id,
  shell: (command) => ({ tool: 'run_shell_command', input: { command } }),
  write: (path, content) => ({ tool: 'write_file', input: { file_path: path, content } }),
  delegate: (script) => [
    [{ tool: 'invoke_agent', input: { agent_name: 'generalist', prompt: `play ${script}` } }],
  ],
}

const group = ({ command, timeout }: HookCommand): object => ({
  matcher: '*',
  hooks: [{ type: 'command', command, timeout: timeout * 1_000 }],
})
