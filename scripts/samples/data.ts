/* What the services of the samples hold at first. */

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

/** What the model says of each issue, by its title. */
export const ratings: Readonly<Record<string, string>> = {
  [issues[0]?.title ?? '']: 'P1: water leaves the tank',
  [issues[1]?.title ?? '']: 'P2: operators read wrong values',
  [issues[2]?.title ?? '']: 'P3: nothing is broken',
}

/** What the model answers, by a part of the prompt. */
export const answers = {
  ...ratings,
  'Check this invoice':
    '- pump seal PS-7: the order says 8, the invoice 10\n- the lines are 277.00, the total says 287.00',
  'Write release notes': '- The pump stops at the upper float.\n- The flow is shown in cubic metres.',
}
