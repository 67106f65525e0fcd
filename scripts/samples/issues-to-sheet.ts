import { mustHold } from '../../src/demo/show.ts'
import { issues, repo, spreadsheet } from './data.ts'
import { runToEnd, saveWorkflow, type Session } from './session.ts'

/** Each open issue becomes a row of a Google sheet. */
export async function issuesToSheet(session: Session): Promise<void> {
  const { tell, services } = session
  tell.step('Issues into a sheet: each open issue becomes a row')
  const workflow = await saveWorkflow(session, 'issues-to-sheet')
  const link = `https://docs.google.com/spreadsheets/d/${spreadsheet.id}/edit`
  await runToEnd(session, workflow, { inputs: { repo, spreadsheet: link } })
  const [head, ...rows] = services.google.spreadsheets.get(spreadsheet.id)?.sheets[0]?.rows ?? []
  mustHold(head?.join() === spreadsheet.head.join(), 'the first row is as before')
  const titles = rows.map(([, title]) => String(title))
  mustHold(
    titles.toSorted().join('|') ===
      issues
        .map(({ title }) => title)
        .toSorted()
        .join('|'),
    'the sheet has each open issue once',
  )
  for (const [number, title] of rows) tell.line(`row: ${number}, ${title}`)
}
