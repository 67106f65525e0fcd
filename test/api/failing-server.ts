import { createApp } from '../../src/api/app.ts'
import { createHttpServer } from '../../src/api/http-server.ts'
import { createContext } from '../../src/programs/create-context.ts'
import type { Context } from '../../src/governance/context.ts'
import type { Combiner } from '../../src/governance/audit/combiner.ts'
import { bodyOf, listen, type Answer } from './server.ts'

type Run = Combiner['run']

/** Starts another API process on the database of `context`. `wrap` wraps the function that runs its transactions. */
async function otherServer(
  context: Context,
  wrap: (run: Run, end: () => Promise<void>) => Run,
): Promise<{ base: string; end: () => Promise<void> }> {
  const other = createContext(context.config, 'api')
  const { combiner } = other
  let isEnding: Promise<void> | null = null
  const end = () => (isEnding ??= other.close())
  Object.assign(other, {
    combiner: { join: combiner.join.bind(combiner), run: wrap(combiner.run.bind(combiner), end) },
  })
  const services = {
    temporal: () => Promise.resolve(true),
    draining: new AbortController().signal,
    mail: async () => {},
  }
  const server = createHttpServer(createApp(other, services))
  const base = await listen(server)
  return {
    base,
    async end() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
      await end()
    },
  }
}

/** Sends one POST to a failing process. */
export async function postTo(
  url: string,
  key: string,
  body: unknown,
  headers: Record<string, string>,
): Promise<Answer> {
  const response = await fetch(url, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${key}`,
      // `fetch` sets the content type of a form itself.
      ...(body instanceof FormData ? {} : { 'content-type': 'application/json' }),
      ...headers,
    },
    body: bodyOf(body),
  })
  const text = await response.text()
  return { status: response.status, headers: response.headers, text, body: JSON.parse(text) }
}

/**
 * Sends a request to a process that dies when its first transaction has committed. The process does nothing after that.
 */
export async function sendAndDie(context: Context, send: (base: string) => Promise<unknown>): Promise<void> {
  const dead = Promise.withResolvers<void>()
  const dying = await otherServer(context, (run, end) => async (...operation) => {
    await run(...operation)
    // Closing its connections ensures that the process can neither renew a lock nor store an answer.
    await end()
    dead.resolve()
    return new Promise(() => {})
  })
  const sent = send(dying.base).then(
    (answer) => Promise.reject(new Error(`it answered: ${JSON.stringify(answer)}`)),
    () => Promise.reject(new Error('the request failed before anything was committed')),
  )
  try {
    await Promise.race([dead.promise, sent])
  } finally {
    sent.catch(() => {})
    await dying.end()
  }
}

/**
 * Sends a request to a process that stops just before its transaction. Runs `meanwhile`, and lets the process continue.
 */
export async function sendAndStall(
  context: Context,
  send: (base: string) => Promise<Answer>,
  meanwhile: () => Promise<unknown>,
): Promise<Answer> {
  const [reached, gate] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const stalling = await otherServer(context, (run) => async (...operation) => {
    reached.resolve()
    await gate.promise
    return run(...operation)
  })
  try {
    const answer = send(stalling.base)
    await Promise.race([reached.promise, answer])
    await meanwhile()
    gate.resolve()
    return await answer
  } finally {
    gate.resolve()
    await stalling.end()
  }
}
