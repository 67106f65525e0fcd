import type { SendToClient, SessionEnd } from '../http-sessions.ts'
import type { Wire } from '../run-mcp.ts'

/* A server with all features that MCP's conformance suite requires. */

const pixel =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
const silence = 'UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA='
const said = (text: string) => ({ type: 'text', text })
const image = { type: 'image', data: pixel, mimeType: 'image/png' }
const embedded = (uri: string) => ({
  type: 'resource',
  resource: { uri, mimeType: 'text/plain', text: 'what is embedded' },
})
const oneOf = (...names: string[]) => names.map((name) => ({ const: name, title: `The ${name}` }))

/** The form fields that the suite checks. */
const defaults = {
  name: { type: 'string', default: 'John Doe' },
  age: { type: 'integer', default: 30 },
  score: { type: 'number', default: 95.5 },
  status: { type: 'string', enum: ['active', 'inactive', 'pending'], default: 'active' },
  verified: { type: 'boolean', default: true },
}
const enums = {
  untitledSingle: { type: 'string', enum: ['option1', 'option2', 'option3'] },
  titledSingle: { type: 'string', oneOf: oneOf('value1', 'value2', 'value3') },
  legacyEnum: { type: 'string', enum: ['opt1', 'opt2'], enumNames: ['One', 'Two'] },
  untitledMulti: { type: 'array', items: { type: 'string', enum: ['option1', 'option2', 'option3'] } },
  titledMulti: { type: 'array', items: { anyOf: oneOf('value1', 'value2', 'value3') } },
}

interface Asking {
  readonly token: unknown
  /** Sends the client a notification that belongs to this call. */
  tell(method: string, params: object): void
  /** Sends the client a request, and returns its result. */
  ask(method: string, params: object): Promise<Wire>
}
type Tool = (asking: Asking) => object | Promise<object>

const form =
  (properties: object): Tool =>
  async ({ ask }) => {
    const requestedSchema = { type: 'object', properties, required: [] }
    const { action } = await ask('elicitation/create', { message: 'Please fill this in', requestedSchema })
    return { content: [said(`the person said ${action}`)] }
  }

const tools: Readonly<Record<string, Tool>> = {
  test_simple_text: () => ({ content: [said('plain text')] }),
  test_image_content: () => ({ content: [image] }),
  test_audio_content: () => ({ content: [{ type: 'audio', data: silence, mimeType: 'audio/wav' }] }),
  test_embedded_resource: () => ({ content: [embedded('test://embedded-resource')] }),
  test_multiple_content_types: () => ({
    content: [said('three kinds'), image, embedded('test://mixed-content-resource')],
  }),
  test_tool_with_logging: ({ tell }) => {
    for (const data of ['started', 'working', 'done']) tell('notifications/message', { level: 'info', data })
    return { content: [said('logged')] }
  },
  test_tool_with_progress: ({ tell, token }) => {
    for (const progress of [0, 50, 100])
      tell('notifications/progress', { progressToken: token, progress, total: 100 })
    return { content: [said('told')] }
  },
  test_error_handling: () => ({ isError: true, content: [said('it always fails')] }),
  test_sampling: async ({ ask }) => {
    const messages = [{ role: 'user', content: said('Say something') }]
    const { content } = await ask('sampling/createMessage', { messages, maxTokens: 100 })
    return { content: [said(`the model said ${content?.text}`)] }
  },
  test_elicitation: form({ username: { type: 'string' } }),
  test_elicitation_sep1034_defaults: form(defaults),
  test_elicitation_sep1330_enums: form(enums),
  json_schema_2020_12_tool: () => ({ content: [said('called')] }),
}
const plainSchema = { type: 'object', properties: {} }
const draftSchema = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  type: 'object',
  $defs: { address: { type: 'object', properties: { street: { type: 'string' } } } },
  properties: { name: { type: 'string' }, address: { $ref: '#/$defs/address' } },
  additionalProperties: false,
}

const prompts: Readonly<Record<string, (args: Wire) => object[]>> = {
  test_simple_prompt: () => [said('a prompt')],
  test_prompt_with_arguments: ({ arg1, arg2 }) => [said(`with ${arg1} and ${arg2}`)],
  test_prompt_with_embedded_resource: ({ resourceUri }) => [embedded(resourceUri)],
  test_prompt_with_image: () => [image, said('look at it')],
}
const argumentsOf: Readonly<Record<string, string[]>> = {
  test_prompt_with_arguments: ['arg1', 'arg2'],
  test_prompt_with_embedded_resource: ['resourceUri'],
}
const resources = [
  { uri: 'test://static-text', name: 'text', mimeType: 'text/plain', text: 'a text' },
  { uri: 'test://static-binary', name: 'binary', mimeType: 'image/png', blob: pixel },
  { uri: 'test://watched-resource', name: 'watched', mimeType: 'text/plain', text: 'watched' },
]
const template = { uriTemplate: 'test://template/{id}/data', name: 'template', mimeType: 'application/json' }

function read(uri: string): object | null {
  const [, id] = /^test:\/\/template\/(.+)\/data$/.exec(uri) ?? []
  if (id !== undefined) return { uri, mimeType: template.mimeType, text: JSON.stringify({ id }) }
  const { name: _name, ...found } = resources.find((each) => each.uri === uri) ?? { name: null }
  return 'uri' in found ? found : null
}

const capabilities = {
  tools: { listChanged: true },
  resources: { subscribe: true, listChanged: true },
  prompts: { listChanged: true },
  logging: {},
  completions: {},
}

/** The results of requests; undefined for an unknown method. */
async function answer({ method, params }: Wire, asking: Asking): Promise<object | undefined> {
  switch (method) {
    case 'initialize': {
      const serverInfo = { name: 'conforming', version: '1' }
      return { protocolVersion: params.protocolVersion, capabilities, serverInfo }
    }
    case 'tools/list':
      return {
        tools: Object.keys(tools).map((name) => {
          const inputSchema = name === 'json_schema_2020_12_tool' ? draftSchema : plainSchema
          return { name, description: `The tool ${name}`, inputSchema }
        }),
      }
    case 'tools/call':
      return tools[params.name]?.(asking)
    case 'resources/list':
      return { resources: resources.map(({ uri, name, mimeType }) => ({ uri, name, mimeType })) }
    case 'resources/templates/list':
      return { resourceTemplates: [template] }
    case 'resources/read':
      return { contents: [read(params.uri)] }
    case 'prompts/list':
      return {
        prompts: Object.keys(prompts).map((name) => ({
          name,
          description: `The prompt ${name}`,
          arguments: (argumentsOf[name] ?? []).map((each) => ({ name: each, required: true })),
        })),
      }
    case 'prompts/get': {
      const contents = prompts[params.name]?.(params.arguments ?? {}) ?? []
      return { messages: contents.map((content) => ({ role: 'user', content })) }
    }
    case 'completion/complete':
      return { completion: { values: ['one'], total: 1, hasMore: false } }
    case 'ping':
    case 'logging/setLevel':
    case 'resources/subscribe':
    case 'resources/unsubscribe':
      return {}
    default:
      return undefined
  }
}

/** One session of the server. */
export function conformingServer(send: SendToClient): SessionEnd {
  const asked = new Map<string, (result: Wire) => void>()
  let ids = 0
  const serve = async (request: Wire): Promise<void> => {
    const { id, params } = request
    const result = await answer(request, {
      token: params?.['_meta']?.progressToken,
      tell: (method, told) => send({ jsonrpc: '2.0', method, params: told }, id),
      ask: (method, question) => {
        const { promise, resolve } = Promise.withResolvers<Wire>()
        const own = `own-${(ids += 1)}`
        asked.set(own, resolve)
        send({ jsonrpc: '2.0', id: own, method, params: question }, id)
        return promise
      },
    })
    const unknown = { error: { code: -32601, message: 'unknown method' } }
    send({ jsonrpc: '2.0', id, ...(result === undefined ? unknown : { result }) })
  }
  return {
    take(message) {
      if (message.method === undefined) asked.get(message.id)?.(message.result ?? {})
      else if (message.id !== undefined) void serve(message)
    },
    end: () => {},
  }
}
