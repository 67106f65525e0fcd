import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { installPinned } from '../support/pinned-packages.ts'
import type { ServerEntry, Wire } from './run-mcp.ts'

/* Access to the MCP servers and SDK clients in peers/package.json. */

const pins = fileURLToPath(new URL('peers', import.meta.url))
const modules = (): Promise<string> => installPinned(pins, 'mcp-peers')

/** The servers `everything` and `files`. `files` may access `folder`. */
export async function realServers(folder: string): Promise<Record<'everything' | 'files', ServerEntry>> {
  const scope = join(await modules(), '@modelcontextprotocol')
  const entry = (name: string, ...args: string[]): ServerEntry => ({
    command: process.execPath,
    args: [join(scope, name, 'dist', 'index.js'), ...args],
  })
  return { everything: entry('server-everything', 'stdio'), files: entry('server-filesystem', folder) }
}

/** The part of the two SDK clients that the tests use. */
export interface SdkClient {
  connect(transport: unknown): Promise<void>
  close(): Promise<void>
  ping(): Promise<Wire>
  listTools(): Promise<Wire>
  callTool(params: object, ...options: unknown[]): Promise<Wire>
  listResources(): Promise<Wire>
  readResource(params: object): Promise<Wire>
  listPrompts(): Promise<Wire>
  getPrompt(params: object): Promise<Wire>
  complete(params: object): Promise<Wire>
  setRequestHandler(schemaOrMethod: unknown, handler: (request: Wire) => unknown): void
  setNotificationHandler(schemaOrMethod: unknown, handler: (told: Wire) => unknown): void
}

export interface Sdk {
  readonly Client: new (info: object, options: object) => SdkClient
  readonly Transport: new (options: object) => unknown
  /** Arguments of a request with options: in v1, the result's schema comes before the options. */
  options(options: object): unknown[]
  /** The first argument for registering a handler. */
  named(method: 'roots/list' | 'elicitation/create' | 'notifications/tools/list_changed'): unknown
}

/** The part of the SDK's server transport that the tests use. */
export interface ServerTransport {
  start(): Promise<void>
  send(message: Wire, options: { relatedRequestId?: string | number }): Promise<void>
  handleRequest(request: unknown, response: unknown, body: unknown): Promise<void>
}

/** Streamable HTTP, as the TypeScript SDK serves it. */
export async function sdkServerTransport(): Promise<
  new (options: {
    sessionIdGenerator: () => string
    enableDnsRebindingProtection: boolean
    allowedHosts: readonly string[]
    onsessioninitialized: (id: string) => void
  }) => ServerTransport
> {
  const path = join(
    await modules(),
    '@modelcontextprotocol',
    'sdk',
    'dist',
    'esm',
    'server',
    'streamableHttp.js',
  )
  return (await import(pathToFileURL(path).href)).StreamableHTTPServerTransport
}

/** The path of the program of MCP's own conformance suite. */
export const conformanceSuite = async (): Promise<string> =>
  join(await modules(), '@modelcontextprotocol', 'conformance', 'dist', 'index.js')

/** The client of the TypeScript SDK, version 1. */
export async function sdkOne(): Promise<Sdk> {
  const load = async (path: string): Promise<Wire> =>
    import(pathToFileURL(join(await modules(), '@modelcontextprotocol', 'sdk', 'dist', 'esm', path)).href)
  const types = await load('types.js')
  const schemas = {
    'roots/list': types.ListRootsRequestSchema,
    'elicitation/create': types.ElicitRequestSchema,
    'notifications/tools/list_changed': types.ToolListChangedNotificationSchema,
  }
  return {
    Client: (await load('client/index.js')).Client,
    Transport: (await load('client/stdio.js')).StdioClientTransport,
    options: (options) => [undefined, options],
    named: (method) => schemas[method],
  }
}

/** The client of the TypeScript SDK, version 2. */
export async function sdkTwo(): Promise<Sdk> {
  const load = async (path: string): Promise<Wire> =>
    import(pathToFileURL(join(await modules(), '@modelcontextprotocol', 'client', 'dist', path)).href)
  return {
    Client: (await load('index.mjs')).Client,
    Transport: (await load('stdio.mjs')).StdioClientTransport,
    options: (options) => [options],
    named: (method) => method,
  }
}
