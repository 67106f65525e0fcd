/** One tool call that the played model asks for, in the client's own tool names and arguments. */
export interface ToolCall {
  readonly tool: string
  readonly input: Readonly<Record<string, unknown>>
}

/** The calls of one answer of the model; several are parallel. */
export type Calls = readonly ToolCall[]

/**
 * One answer: its calls, or what to do before it, given what the script's conversation has read so far. After the last
 * turn the model says that it is done.
 */
export type Turn = Calls | ((read: readonly ToolResult[]) => Calls | Promise<Calls>)

/**
 * What the played model does. `main` is for the conversation that the test starts; a subagent whose task contains
 * `play NAME` follows the script of that name.
 */
export type Script = Readonly<Record<string, readonly Turn[]>>

/** What the client has sent back for a call: what the model reads. */
export interface ToolResult {
  readonly script: string
  readonly text: string
  /** As the client marks it; null where its protocol has no such mark. */
  readonly isError: boolean | null
}

/** A request of a client, understood. */
export interface Conversation {
  /** The words of the user so far, where the name of the script stands. */
  readonly words: string
  /** How many answers with tool calls the model has given. */
  readonly turns: number
  /** By the call's id, in the order of the calls. */
  readonly results: ReadonlyMap<string, Omit<ToolResult, 'script'>>
}

/** How one vendor's model is spoken with. */
export interface Dialect {
  /** Null for a request that is no conversation with tools. */
  read(path: string, body: unknown): Conversation | null
  /** The whole stream of server-sent events of an answer. `id` is unlike that of any other answer. */
  answer(calls: Calls, id: string): string
}

/** `data:` lines, with an event name where `event` tells one. */
export function events(payloads: readonly object[], event?: (payload: object) => string): string {
  return payloads
    .map(
      (payload) =>
        `${event === undefined ? '' : `event: ${event(payload)}\n`}data: ${JSON.stringify(payload)}\n\n`,
    )
    .join('')
}

export const lastWords = 'the script is over'
