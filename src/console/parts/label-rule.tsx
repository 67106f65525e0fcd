import type { AnswerOf } from '../../api/routes/index.ts'
import { describeConditions } from '../../policy/explain.ts'
import { list, quote } from '../../policy/text.ts'
import type { Form } from '../visit.ts'
import { Conditions } from './conditions.tsx'
import { Field, Select, type Filled } from './form.tsx'
import { labelsIn, matchIn } from './rule-fields.ts'
import { Labels, ToolsField, type Offered } from './rule-form.tsx'
import { ruleBodyOf } from './rule-text.tsx'

/* A rule that labels what tools read: in words, and its form. */

export type LabelRuleView = AnswerOf<'GET /organizations/{id}/label-rules/{rule}'>
export type LabelRuleBody = Pick<
  LabelRuleView,
  'name' | 'status' | 'tools' | 'params' | 'labels' | 'add_labels'
>

/** "What a call returns is labelled `confidential` if the tool matches `file_read`". */
export const labelSentence = (rule: Omit<LabelRuleBody, 'status'>): string =>
  `What a call returns is labelled ${list(rule.add_labels.map(quote), 'and')} if ${describeConditions(rule)}`

/** By the names in the body of the route. */
export const labelRuleLabels = {
  name: 'Name',
  tools: 'Tools',
  labels: 'Labels of the data',
  params: 'Parameters',
  add_labels: 'Labels that it adds',
  status: 'State',
}

const states = [
  ['active', 'Active'],
  ['inactive', 'Inactive'],
] as const

export function LabelRuleFields(props: { rule: LabelRuleBody | null; offered: Offered; filled: Filled }) {
  const { rule, offered, filled } = props
  return (
    <>
      <Field
        name="name"
        most={200}
        value={rule?.name ?? ''}
        help="Such as “salaries are confidential”."
        filled={filled}
      />
      <Labels
        name="add_labels"
        checked={rule?.add_labels ?? []}
        known={offered.labels}
        help="What the call returns carries them, and so does everything that is made from it."
        filled={filled}
      />
      <fieldset class="checks stack">
        <legend>Of which calls</legend>
        <p class="quiet small">A call must meet all that you give here. Give nothing for every call.</p>
        <ToolsField tools={rule?.tools ?? []} offered={offered} filled={filled} />
        <Labels
          name="labels"
          checked={rule?.labels?.any_of ?? []}
          known={offered.labels}
          help="The data that the call gets has one of those that you check. Check none for all data."
          filled={filled}
        />
        <Conditions params={rule?.params ?? []} filled={filled} />
      </fieldset>
      <Select
        name="status"
        options={rule?.status === 'shadow' ? [...states, ['shadow', 'Shadow: adds nothing']] : states}
        value={rule?.status ?? 'active'}
        filled={filled}
      />
    </>
  )
}

/** The whole rule as the form says. What it does not show stays as in `present`. */
export function labelRuleIn(form: Form, present: LabelRuleBody | null): LabelRuleBody {
  const whole = {
    ...(present === null ? {} : ruleBodyOf(present)),
    name: (form.get('name') ?? '').trim(),
    ...matchIn(form, present ?? {}),
    add_labels: labelsIn(form, 'add_labels'),
    status: form.get('status') ?? '',
  }
  return Object.fromEntries(
    Object.entries(whole).filter(([, value]) => value !== undefined),
  ) as unknown as LabelRuleBody
}
