import { afterAll, beforeAll, beforeEach } from '@jest/globals'
import { planNotifications } from '../../../src/governance/notifications/plan.ts'
import { planSlack } from '../../../src/governance/notifications/plan-slack.ts'
import { effectOf, holdRule, opOf, startEngine, type Engine } from '../runs/engine-fixture.ts'
import { connectSlack, link } from './people.ts'

/** An organization with Slack, and the ids of its members who have linked an account. */
export interface Planned {
  readonly engine: Engine
  readonly people: Readonly<Record<string, string>>
}

/** Starts an engine with Slack for all tests of a file. Before each test, no rule and no message is left. */
export function usePlanned(use: (planned: Planned) => void): void {
  let engine: Engine
  beforeAll(async () => {
    engine = await startEngine()
    const people = await link(engine, {
      owner: 'U0000OWNER',
      admin: 'U0000ADMIN',
      approver: 'U00APPROVER',
      member: 'U000MEMBER',
    })
    await connectSlack(engine)
    use({ engine, people })
  })
  beforeEach(async () => {
    await engine.rules()
    await plan(engine)
    await engine.context.db.deleteFrom('notifications').execute()
  })
  afterAll(() => engine?.close())
}

export const plan = (engine: Engine, context = engine.context) => planNotifications(context, [planSlack])

/** Holds a call, and returns its approval. */
export async function held(
  engine: Engine,
  over: object = {},
  by: 'member' | 'admin' = 'member',
  author: 'member' | 'admin' = 'member',
): Promise<string> {
  await engine.rules(holdRule(over))
  const op = opOf(await engine.run(undefined, {}, by, author))
  await engine.decide(op)
  return (await effectOf(engine.context, op))?.approval_id as string
}
