import { Select, type Filled } from './form.tsx'

/** What holds for calls of agents that no rule allows: of a key, or of the members of a group. */
export const AgentAccess = (props: {
  readonly whose: string
  readonly value: 'allow' | 'deny'
  readonly filled: Filled
  /** A key whose agents need a rule stays so. */
  readonly isFixed?: boolean
}) => (
  <Select
    name="default_agent_access"
    label="Calls of agents without a rule"
    options={[...(props.isFixed === true ? [] : [['allow', 'pass'] as const]), ['deny', 'are denied']]}
    value={props.filled.form?.get('default_agent_access') ?? props.value}
    help={`If they are denied, a coding agent ${props.whose} may make only calls that a rule with the verdict “allow” matches.`}
    filled={props.filled}
  />
)

export const accessIn = (form: { get(name: string): string | null }): 'allow' | 'deny' | undefined => {
  const given = form.get('default_agent_access')
  return given === 'allow' || given === 'deny' ? given : undefined
}
