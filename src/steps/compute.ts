import { z } from 'zod'
import { boundedForm, writtenForm } from '../contract/forms.ts'
import { jsonValue } from '../contract/json.ts'
import { nameField } from '../policy/text.ts'
import { defineKind, noCall } from './kind.ts'

const fields = {
  compute: z.record(nameField(100), jsonValue).optional().meta({
    description:
      'Values by name, with templates and expressions. They are the output of the step: `{{steps.ID.output.NAME}}`. The step makes no call, so no rule is about it.',
  }),
}

/** A step that computes values from others. It makes no call and keeps the labels of everything it refers to. */
export const compute = defineKind({
  name: 'compute',
  fields,
  values: 'compute',
  check: ({ compute: given = {} }) =>
    Object.keys(given).length === 0
      ? [
          {
            path: 'compute',
            message: '`compute` needs at least one value, such as `{"total": "{{ input.a + input.b }}"}`',
          },
        ]
      : [],
  output: ({ compute: given = {} }, _catalog, formOf) => boundedForm(writtenForm(given, formOf)),
  plan: ({ compute: given = {} }) => ({ ...noCall(given), isComputed: true }),
  skeleton: ({ id }) => ({
    activity: 'compute',
    timeoutSeconds: 10,
    isQuick: true,
    isShort: true,
    title: `the values of ${id}`,
  }),
  waits: () => null,
  run: { as: 'compute' },
})
