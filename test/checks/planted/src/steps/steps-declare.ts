import '../governance/rules.ts'
