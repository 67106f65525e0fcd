import { mustHold } from '../../src/demo/show.ts'
import { board, tasks } from './data.ts'
import { requester, runToEnd, saveWorkflow, type Session } from './session.ts'

const name = 'Ines Verhoeven'
const email = 'ines@larkspur.example'

/**
 * A new colleague gets a channel, an invitation to the first day, and a card for each task. The run then waits for a
 * time, and tells the channel.
 */
export async function onboarding(session: Session): Promise<void> {
  const { stack, tell, services } = session
  tell.step('Onboarding: a channel, an invitation and a card for each task, and a message at its time')
  const workflow = await saveWorkflow(session, 'onboarding')
  const channel = 'welcome-ines'
  const sayAt = new Date(Date.now() + 3_000).toISOString()
  const inputs = { name, email, channel, board: board.link, list: board.list, tasks, say_at: sayAt }
  const { run } = await runToEnd(session, workflow, { inputs })

  const events = [...(services.google.calendars.get('primary')?.events.values() ?? [])]
  const [event, ...more] = events.filter(({ summary }) => summary === `First day of ${name}`)
  mustHold(event !== undefined && more.length === 0, 'the calendar has the first day once')
  const invited = (event.attendees ?? []).map((each) => each.email).toSorted()
  const { email: own } = stack.bootstrap.users[requester]
  mustHold(invited.join() === [own, email].toSorted().join(), `${own} and ${email} are invited`)
  tell.line(`event: First day of ${name}, ${event.start.dateTime}`)

  const cards = services.trello().cards.filter(({ desc }) => desc.startsWith(`For ${name}.`))
  const made = cards.map((card) => card.name).toSorted()
  mustHold(made.join() === [...tasks].toSorted().join(), 'the board has one card for each task')
  tell.line(`cards: ${made.join(', ')}`)

  const morning = run.steps.find(({ id }) => id === 'morning')
  mustHold(Date.parse(morning?.finished_at ?? '') >= Date.parse(sayAt), `the run waited until ${sayAt}`)
  tell.line(`the run waited until ${sayAt}`)

  const { start } = run.outputs['first_day'] as { start: string }
  const messages = await services.messages(`#${channel}`)
  const [hello, ...others] = messages.filter((text) => text.startsWith(`${name} starts on ${start}.`))
  mustHold(
    hello !== undefined && others.length === 0,
    `#${channel} was told once (it has ${messages.join(' | ')})`,
  )
  tell.line(`#${channel} ${hello}`)
}
