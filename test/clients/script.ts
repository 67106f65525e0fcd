/** One tool call of the played model, with the client's own tool names and arguments. */
export interface ToolCall {
  readonly tool: string
  readonly input: Readonly<Record<string, unknown>>
}

/** The calls in one answer of the model. Several calls in one answer are parallel calls. */
export type Calls = readonly ToolCall[]

/**
 * One answer of the model: its calls, or a function that returns them. The function gets the results that the script's
 * conversation has read so far. After the last turn the model says that it is done.
 */
export type Turn = Calls | ((read: readonly ToolResult[]) => Calls | Promise<Calls>)

/**
 * The script of the played model. `main` is for the conversation that the test starts. A subagent whose task contains
 * `play NAME` follows the script with that name.
 */
export type Script = Readonly<Record<string, readonly Turn[]>>

/** The client's result for a call, as the model reads it. */
export interface ToolResult {
  readonly script: string
  readonly text: string
  /** Whether the client marks the result as an error; null if its protocol has no such mark. */
  readonly isError: boolean | null
}

/** A parsed request of a client. */
export interface Conversation {
  /** The user's text so far, which contains the name of the script. */
  readonly words: string
  /** Number of answers with tool calls that the model has given. */
  readonly turns: number
  /** The results by the id of their call, in the order of the calls. */
  readonly results: ReadonlyMap<string, Omit<ToolResult, 'script'>>
}

/** The request and answer format of one vendor's model API. */
export interface Dialect {
  /** Parses a request. Returns null for a request that is not a conversation with tools. */
  read(path: string, body: unknown): Conversation | null
  /** The whole stream of server-sent events for one answer. `id` is unique. */
  answer(calls: Calls, id: string): string
}

/** `data:` lines, with an event name if `event` returns one. */
export function events(payloads: readonly object[], event?: (payload: object) => string): string {
  return payloads
    .map(
      (payload) =>
        `${event === undefined ? '' : `event: ${event(payload)}\n`}data: ${JSON.stringify(payload)}\n\n`,
    )
    .join('')
}

export const lastWords = 'the script is over'
