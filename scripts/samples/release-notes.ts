import { mustHold } from '../../src/demo/show.ts'
import { answers, channel, repo } from './data.ts'
import { requester, runToEnd, saveWorkflow, type Session } from './session.ts'

const everybody = '#announcements'
/** Slack and rules accept a channel's name with and without `#`. */
const spellings = [everybody, 'announcements']

/**
 * A language model writes release notes from merged pull requests. The notes are sent to a channel. A rule denies
 * sending the notes to the channel `#announcements`.
 */
export async function releaseNotes(session: Session): Promise<void> {
  const { client, tell, changes, services, tag } = session
  tell.step('Release notes: a language model writes them, and a channel gets them')
  const name = `sample ${tag}: strangers' words do not go to everybody`
  await changes.save('rules', {
    name,
    verdict: 'deny',
    tools: ['slack_send_message'],
    labels: { any_of: ['untrusted'] },
    params: [{ param: 'channel', operator: 'equals', value: everybody }],
  })
  const workflow = await saveWorkflow(session, 'release-notes')
  for (const spelling of spellings) {
    const wrong = { inputs: { repo, channel: spelling } }
    const { status, error } = await client.ask(requester, 'POST', `/workflows/${workflow}/execute`, wrong)
    mustHold(status === 403 && error?.code === 'run_denied', `a run for ${spelling} is refused`)
    tell.line(`to ${spelling}: 403 ${error.code}, ${error.message}`)
  }
  await runToEnd(session, workflow, { inputs: { repo, channel } })
  const messages = await services.messages(channel)
  const notes = answers['Write release notes']
  mustHold(messages.filter((text) => text === notes).length === 1, `${channel} has the notes once`)
  for (const line of notes.split('\n')) tell.line(`${channel} ${line}`)
}
