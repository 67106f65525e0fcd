import type { ToolCall, ToolContext, ToolServices } from '../../src/tools/kit/executor.ts'

/** A call of a tool's body as the interceptor would make it. */
export function toolCall<Params>(params: Params, over: Partial<ToolCall<Params>> = {}): ToolCall<Params> {
  return {
    params,
    organizationId: 'org_1',
    runId: 'run_1',
    stepId: 'step',
    itemIndex: null,
    requester: { userId: 'usr_1' },
    idempotencyKey: 'run_1/step/',
    labels: [],
    revision: null,
    ...over,
  }
}

/** A context whose point of no return commits at once; `marks` counts the requests for it. */
export function toolContext(
  services: Partial<ToolServices> = {},
  over: Partial<ToolContext> = {},
): ToolContext & { marks: number } {
  const context = {
    marks: 0,
    signal: new AbortController().signal,
    pointOfNoReturn: async () => {
      context.marks++
    },
    reserve: async () => {},
    tools: {
      priceOf: () => ({ input: 0, output: 0 }),
      fileRoot: '/nowhere',
      smtpUrl: null,
      mailFrom: 'Countersign <countersign@larkspur.example>',
      connection: async () => {
        throw new Error('the test gives the tool no connection')
      },
      connectionIfAny: async () => null,
      slackAccount: async () => null,
      memory: {
        get: async () => null,
        state: async () => ({ text: null, isBroken: false, labels: [], revision: 'absent' }),
        seal: async (_organization: string, _key: string, text: string) => ({
          value_sealed: Buffer.from(text),
          value_version: 'v',
        }),
      },
      ...services,
    },
    ...over,
  }
  return context
}

/** Errors of a call: for now, with the pause that the service asks for, and for good. */
export const later = (code: string, retryAfterSeconds: number | null = null): object => ({
  ...{ code, retryable: true, retryAfterSeconds },
})
export const final = (code: string): object => ({ code, retryable: false })

/** The rejection of a promise; fails the test if it resolves. */
export async function rejection(promise: Promise<unknown>): Promise<unknown> {
  try {
    await promise
  } catch (error) {
    return error
  }
  throw new Error('expected a rejection')
}
