import type { z } from 'zod'

/** What the examples of openapi.json tell of: a run whose mail waits for an approval, and the agents beside it. */
export const story = {
  organization: 'org_01M82XC49C6DNPNMMACZ0N6ZBK',
  requester: 'usr_01M82XC49JT4FSC3EKQ16VJJDN',
  approver: 'usr_01M82XC49JT4FSC3EKQ16VJJDP',
  workflow: 'wf_01M82XCQS00142T8J989S45DCY',
  workflowName: 'send the quarterly report',
  run: 'run_01M82XCQTZ8B1AQ3BA0T1P04JD',
  approval: 'apr_01M82XCRQ276HC13E8VVB45TX4',
  rule: 'rule_01M82XCQQBNZNRKSZBNXXQMJNT',
  ruleName: 'internal data leaves with a second person',
  mail: 'team@larkspur.example',
  report: '# Larkspur Instruments: third quarter in short',
  paramsHash: 'ddd54319a0744625976c38f58805a319faf9661cfdc8e36d7b70bb475737aa26',
  webhook: 'whk_01M84HWNSDGB51MQVPB57P68Z1',
  saved: '2026-11-23T00:37:44.812Z',
  accepted: '2026-11-23T00:37:44.948Z',
  started: '2026-11-23T00:37:45.715Z',
  held: '2026-11-23T00:37:45.822Z',
  expires: '2026-11-30T00:37:45.822Z',
  voted: '2026-11-23T00:37:50.083Z',
  cancelled: '2026-11-23T00:37:50.343Z',
} as const

/** The body of a request, and by status that of an answer. */
export interface Example {
  readonly body?: unknown
  readonly answers: Readonly<Record<number, unknown>>
}

/** Fields that are not given are left out, null, or an empty list, as the schema allows. */
export function exampleOf<S extends z.ZodObject>(schema: S, given: Partial<z.output<S>>): z.output<S> {
  const filled = Object.entries(schema.shape).flatMap(([name, field]) => {
    if (name in given) return [[name, (given as Record<string, unknown>)[name]]]
    if (field.safeParse(undefined).success) return []
    return [[name, field.safeParse(null).success ? null : []]]
  })
  return Object.fromEntries(filled) as z.output<S>
}

export const pageWith = (...data: readonly object[]) => ({ data, next_cursor: null })
