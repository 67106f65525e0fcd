/* The data that the services of the samples contain at first. */

export const repo = 'larkspur/pump-control'
export const channel = '#releases'

export const issues = [
  {
    title: 'The pump does not stop at the upper float',
    body: 'The tank overflowed in Harlingen last night.',
  },
  { title: 'Wrong unit in the flow chart', body: 'The axis says litres, the values are cubic metres.' },
  { title: 'Dark colours for the control room', body: 'The night shift asks for it.' },
]
export const pulls = [
  { title: 'Stop the pump at the upper float', isMerged: true },
  { title: 'Show the flow in cubic metres', isMerged: true },
  { title: 'Try another charting library', isMerged: false },
]

/** Maps the title of each issue to the model's rating. */
export const ratings: Readonly<Record<string, string>> = {
  [issues[0]?.title ?? '']: 'P1: water leaves the tank',
  [issues[1]?.title ?? '']: 'P2: operators read wrong values',
  [issues[2]?.title ?? '']: 'P3: nothing is broken',
}

export const project = 'OPS'
/** The tickets in Jira, with their status. */
export const tickets = [
  { key: 'OPS-1', summary: 'Replace the seals in Utrecht', status: 'Done' },
  { key: 'OPS-2', summary: 'Calibrate the meters in Bremen', status: 'In Progress' },
  { key: 'OPS-3', summary: 'Order new floats', status: 'To Do' },
]
export const spreadsheet = {
  id: 'sheet-of-issues',
  title: 'Issues',
  head: ['number', 'title', 'link', 'read on'],
}
export const draft = {
  id: 'draft-of-manual',
  title: 'Pump manual',
  text: 'Stop the pump at the upper float.\nCheck the seals twice a year.',
}
export const board = { link: 'https://trello.com/b/board001/plans', list: 'To do' }
export const tasks = ['Order a laptop', 'Make accounts', 'Show the workshop']

/** Sheets that already have their first row. */
export const expenses = {
  id: 'sheet-of-expenses',
  title: 'Expenses',
  head: ['day', 'amount', 'what'],
  message: 'Lunch with Meander on 27 November, 23.40',
}
export const holidays = { id: 'sheet-of-holidays', title: 'Holidays', head: ['name', 'from', 'to', 'asked'] }

export const question = 'What is a float switch?'

/** The model's answers. The model gives an answer if the prompt contains the key of the answer. */
export const answers = {
  ...ratings,
  'Check this invoice':
    '- pump seal PS-7: the order says 8, the invoice 10\n- the lines are 277.00, the total says 287.00',
  'Write the weekly report':
    'Finished:\n- OPS-1 Replace the seals in Utrecht\nUnder way:\n- OPS-2 Calibrate the meters in Bremen',
  'Review this document': '- the manual does not say how a seal is checked',
  'Read this expense': '{"what": "Lunch with Meander", "amount": 23.4, "day": "2026-11-27"}',
  [question]: 'A float switch follows the water. It closes a circuit at a level, and stops the pump there.',
  'Write release notes': '- The pump stops at the upper float.\n- The flow is shown in cubic metres.',
}
