import { slackSender } from '../../../src/activities/notify/chat.ts'
import type { WorkflowEngine } from '../../../src/governance/delivery/workflow-engine.ts'
import { temporalSender } from '../../../src/governance/delivery/relay.ts'
import { clockSender } from '../../../src/governance/lanes/clock.ts'
import { startRunner } from '../../../src/governance/lanes/runner.ts'
import { planMail } from '../../../src/governance/notifications/plan-mail.ts'
import { planSlack } from '../../../src/governance/notifications/plan-slack.ts'
import { planNotifications } from '../../../src/governance/notifications/plan.ts'
import { mailSender } from '../../../src/governance/notifications/send-mail.ts'
import { webhookSender } from '../../../src/governance/webhooks/deliver.ts'
import { fanOut } from '../../../src/governance/webhooks/fan-out.ts'
import { createContext, createMailer } from '../../../src/programs/create-context.ts'
import { readConfig } from '../../../src/shared/config.ts'

/*
 * A process that sends everything, until it is killed. It plays Temporal's client: each message goes to TELL_URL instead.
 */

const context = createContext(readConfig(process.env), 'worker')
const tell = async (words: string): Promise<boolean> => {
  await fetch(process.env['TELL_URL'] ?? '', { method: 'POST', body: words })
  return true
}
const engine: WorkflowEngine = {
  start: async ({ input }) => void (await tell(`run.start ${input.runId}`)),
  wake: (runId) => tell(`run.wake ${runId}`),
  cancel: (runId) => tell(`run.cancel ${runId}`),
  describe: async () => 'running',
}
const planners = [planSlack, planMail(context.config)]
const timing = { retrySeconds: 0.05, speed: 1_000, leaveMilliseconds: 5_000, turnMilliseconds: 20_000 }
const tasks = {
  'planning messages': () => planNotifications(context, planners),
  'writing deliveries to webhooks': () => fanOut(context),
}
startRunner(
  context,
  [
    temporalSender(context, engine, async () => true),
    slackSender(context, timing),
    mailSender(context, createMailer(context.config)),
    webhookSender(context),
    clockSender(context, tasks),
  ],
  20,
)
process.send?.(context.config.processId)
process.once('disconnect', () => process.exit())
