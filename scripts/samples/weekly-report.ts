import { caughtMail } from '../../src/demo/story.ts'
import { mustHold } from '../../src/demo/show.ts'
import { answers, project, tickets } from './data.ts'
import { connectTool, runToEnd, saveWorkflow, type Session } from './session.ts'

const to = 'operations@larkspur.example'

/** A workflow reads the tickets of the week. A language model writes a report, which is mailed. */
export async function weeklyReport(session: Session): Promise<void> {
  const { stack, tell, services } = session
  tell.step('Weekly report: tickets of Jira become a report, which is mailed')
  await connectTool(session, 'jira_search', services.jiraCredential)
  const workflow = await saveWorkflow(session, 'weekly-report')
  const { run } = await runToEnd(session, workflow, { inputs: { project, to } })
  const prompt = services.prompts().at(-1) ?? ''
  for (const { key, status } of tickets)
    mustHold(prompt.includes(key) === (status !== 'To Do'), `the model read ${key} only if it was worked on`)
  const { report } = run.result as { report: string }
  mustHold(report === answers['Write the weekly report'], 'the report is what the model wrote')
  const { message_id: id } = run.outputs['send'] as { message_id: string }
  const mails = caughtMail(stack.mailDir).filter(({ messageId }) => messageId === id)
  mustHold(mails.length === 1 && mails[0]?.to === to, `the report was mailed once, to ${to}`)
  tell.line(`mail ${id} to ${to}: ${mails[0].subject}`)
}
