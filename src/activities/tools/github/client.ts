import { Octokit } from '@octokit/rest'
import type { z } from 'zod'
import type { ToolName } from '../../../catalog/index.ts'
import type { Fetch } from '../../../shared/outgoing/outgoing.ts'
import type { ToolCall, ToolContext } from '../executor.ts'
import { errorOf, unreadable } from './errors.ts'

/** The longest exchange of one request. A write that has not ended by then has not begun to be carried out later. */
export const exchangeMilliseconds = 30_000
/** Largest answer. An issue's text has 64 KiB, and a page has 100 of them. */
export const mostAnswerBytes = 32 * 1024 * 1024

/** GitHub as one call sees it. */
export interface GitHub {
  /** Sends a request that changes nothing. Returns the checked answer. Throws by the table in errors.ts. */
  read<Form extends z.ZodType>(
    form: Form,
    send: (octokit: Octokit) => Promise<{ data: unknown }>,
  ): Promise<z.output<Form>>
  /** Sends a request that has an effect, after the point of no return. A cancellation does not stop it. */
  write<Form extends z.ZodType>(
    form: Form,
    send: (octokit: Octokit) => Promise<{ data: unknown }>,
  ): Promise<z.output<Form>>
}

/**
 * The client with the connection of this call. `@octokit/rest` repeats no request by itself, so each effect is sent
 * once for each point of no return.
 */
export async function githubOf(
  call: Pick<ToolCall<unknown>, 'organizationId' | 'requester'>,
  context: Pick<ToolContext, 'signal' | 'tools'>,
  tool: ToolName,
): Promise<GitHub> {
  const connection = await context.tools.connection(call, tool, 'github')
  const { authorization = '', 'x-github-api-version': version = '' } = connection.headers
  const client = (signal?: AbortSignal): Octokit => {
    // GitHub redirects from a repository that was renamed, or moved to another owner, which no policy has allowed.
    const bounds = {
      milliseconds: exchangeMilliseconds,
      bytes: mostAnswerBytes,
      followsRedirects: false,
    } as const
    const send = connection.fetchWithin(signal === undefined ? bounds : { ...bounds, signal })
    const octokit = new Octokit({
      baseUrl: connection.base,
      userAgent: 'countersign',
      log: silent,
      request: { fetch: async (...request: Parameters<Fetch>) => asText(await send(...request)) },
    })
    octokit.hook.before('request', (options) => {
      Object.assign(options.headers, { authorization, 'x-github-api-version': version })
    })
    return octokit
  }
  const exchange = async <Form extends z.ZodType>(
    kind: 'read' | 'write',
    form: Form,
    send: (octokit: Octokit) => Promise<{ data: unknown }>,
  ): Promise<z.output<Form>> => {
    try {
      const { data } = await send(client(kind === 'read' ? context.signal : undefined))
      const parsed = form.safeParse(fromJson(data))
      if (parsed.success) return parsed.data
      throw unreadable(kind)
    } catch (error) {
      throw await errorOf(error, kind, () => connection.expired())
    }
  }
  return {
    read: (form, send) => exchange('read', form, send),
    write: (form, send) => exchange('write', form, send),
  }
}

/**
 * The client's own reader of JSON takes minutes for some texts of a megabyte, and nothing else runs meanwhile. So the
 * client gets each answer as plain text.
 */
function asText(answer: Response): Response {
  answer.headers.set('content-type', 'text/plain')
  return answer
}

function fromJson(data: unknown): unknown {
  try {
    return JSON.parse(String(data)) as unknown
  } catch {
    return undefined
  }
}

/** The client would write addresses and answers to the console. */
const nothing = (): void => {}
const silent = { debug: nothing, info: nothing, warn: nothing, error: nothing }
