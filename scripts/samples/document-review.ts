import { mustHold } from '../../src/demo/show.ts'
import { answers, channel, draft } from './data.ts'
import { runToEnd, saveWorkflow, type Session } from './session.ts'

/** A language model reviews a document. A member of each of two groups must approve before it is published with its review. */
export async function documentReview(session: Session): Promise<void> {
  const { tell, changes, services, tag } = session
  tell.step('Review: a document is reviewed, and published after finance and legal have approved it')
  const title = `${draft.title} (reviewed)`
  await changes.save('rules', {
    name: `sample ${tag}: finance and legal publish`,
    verdict: 'require_approval',
    tools: ['docs_create'],
    approvers: await changes.groups({
      [`sample-${tag}-finance`]: 'approver',
      [`sample-${tag}-legal`]: 'owner',
    }),
    params: [{ param: 'title', operator: 'equals', value: title }],
  })
  const workflow = await saveWorkflow(session, 'document-review')
  const link = `https://docs.google.com/document/d/${draft.id}/edit`
  const { run, heldSteps, reasons, approvedBy } = await runToEnd(session, workflow, {
    inputs: { document: link, channel },
  })
  // If the stack was already running, its settings may require an approval of the whole run too. The step of such an
  // approval is null.
  const others = reasons.filter(
    (_reason, index) => heldSteps[index] !== null && heldSteps[index] !== 'publish',
  )
  mustHold(others.length === 0, `only the step \`publish\` is held (${others.join('; ')})`)
  mustHold(heldSteps.filter((step) => step === 'publish').length === 1, 'the step `publish` was held once')
  mustHold(new Set(approvedBy[heldSteps.indexOf('publish')]).size >= 2, 'a member of each group approved it')
  const [made, ...more] = [...services.google.files.values()].filter((file) => file.name === title)
  mustHold(made !== undefined && more.length === 0, 'the reviewed document exists once')
  for (const part of [draft.text, answers['Review this document']])
    mustHold(made.text.includes(part), 'it has the text and its review')
  const { url } = run.result as { url: string }
  const told = (await services.messages(channel)).filter((text) => text.includes(url))
  mustHold(told.length === 1, `${channel} got its link once`)
  tell.line(`${title}: ${url}`)
}
