//! Parser of metric math: the part of the language that the template uses.

use std::iter::Peekable;
use std::str::Chars;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Expression {
    Number(f64),
    Text(String),
    /// Id of another query.
    Id(String),
    Call(String, Vec<Expression>),
    List(Vec<Expression>),
    Binary(Operator, Box<Expression>, Box<Expression>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Or,
    And,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
    Add,
    Subtract,
    Multiply,
    Divide,
}

impl Operator {
    /// Strength with which an operator binds its operands.
    const fn precedence(self) -> u8 {
        match self {
            Self::Or => 1,
            Self::And => 2,
            Self::Greater | Self::GreaterOrEqual | Self::Less | Self::LessOrEqual => 3,
            Self::Add | Self::Subtract => 4,
            Self::Multiply | Self::Divide => 5,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Number(f64),
    Text(String),
    Word(String),
    Operator(Operator),
    Punctuation(char),
}

/// Parses an expression. The error names the part that is not valid.
pub(super) fn parse(text: &str) -> Result<Expression, String> {
    let mut parser = Parser { tokens: tokens(text)?.into_iter().peekable() };
    let expression = parser.binary(0)?;
    match parser.tokens.next() {
        None => Ok(expression),
        Some(token) => Err(format!("unexpected {token:?}")),
    }
}

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.peek().copied() {
        if char.is_whitespace() {
            chars.next();
        } else if char.is_ascii_digit() {
            let number = take_while(&mut chars, |char| char.is_ascii_digit() || char == '.');
            tokens.push(Token::Number(number.parse().map_err(|_| format!("{number} is no number"))?));
        } else if char.is_ascii_alphabetic() {
            let word = take_while(&mut chars, |char| char.is_ascii_alphanumeric() || char == '_');
            tokens.push(match word.as_str() {
                "OR" => Token::Operator(Operator::Or),
                "AND" => Token::Operator(Operator::And),
                _ => Token::Word(word),
            });
        } else if matches!(char, '\'' | '"') {
            chars.next();
            tokens.push(Token::Text(take_while(&mut chars, |next| next != char)));
            chars.next().ok_or("the text has no end")?;
        } else {
            chars.next();
            let is_equal = chars.peek() == Some(&'=');
            let operator = match char {
                '>' if is_equal => Operator::GreaterOrEqual,
                '<' if is_equal => Operator::LessOrEqual,
                '>' => Operator::Greater,
                '<' => Operator::Less,
                '+' => Operator::Add,
                '-' => Operator::Subtract,
                '*' => Operator::Multiply,
                '/' => Operator::Divide,
                '(' | ')' | '[' | ']' | ',' => {
                    tokens.push(Token::Punctuation(char));
                    continue;
                }
                _ => return Err(format!("unexpected {char:?}")),
            };
            if matches!(operator, Operator::GreaterOrEqual | Operator::LessOrEqual) {
                chars.next();
            }
            tokens.push(Token::Operator(operator));
        }
    }
    Ok(tokens)
}

fn take_while(chars: &mut Peekable<Chars<'_>>, belongs: impl Fn(char) -> bool) -> String {
    let mut taken = String::new();
    while let Some(char) = chars.next_if(|char| belongs(*char)) {
        taken.push(char);
    }
    taken
}

struct Parser {
    tokens: Peekable<std::vec::IntoIter<Token>>,
}

impl Parser {
    /// Parses operands that are joined by operators with at least this precedence.
    fn binary(&mut self, at_least: u8) -> Result<Expression, String> {
        let mut left = self.operand()?;
        while let Some(Token::Operator(operator)) = self.tokens.peek()
            && operator.precedence() >= at_least
        {
            let operator = *operator;
            self.tokens.next();
            let right = self.binary(operator.precedence() + 1)?;
            left = Expression::Binary(operator, Box::new(left), Box::new(right));
        }
        Ok(left)
    }

    fn operand(&mut self) -> Result<Expression, String> {
        match self.tokens.next().ok_or("the expression ends too early")? {
            Token::Number(number) => Ok(Expression::Number(number)),
            Token::Text(text) => Ok(Expression::Text(text)),
            Token::Word(word) => {
                if self.tokens.next_if_eq(&Token::Punctuation('(')).is_some() {
                    return Ok(Expression::Call(word, self.list(')')?));
                }
                Ok(Expression::Id(word))
            }
            Token::Punctuation('(') => {
                let inner = self.binary(0)?;
                self.expect(')')?;
                Ok(inner)
            }
            Token::Punctuation('[') => Ok(Expression::List(self.list(']')?)),
            Token::Operator(Operator::Subtract) => {
                let operand = self.operand()?;
                Ok(Expression::Binary(Operator::Subtract, Box::new(Expression::Number(0.0)), Box::new(operand)))
            }
            token @ (Token::Operator(_) | Token::Punctuation(_)) => Err(format!("unexpected {token:?}")),
        }
    }

    /// Parses expressions that are separated by commas, up to the closing bracket.
    fn list(&mut self, end: char) -> Result<Vec<Expression>, String> {
        let mut items = Vec::new();
        if self.tokens.next_if_eq(&Token::Punctuation(end)).is_some() {
            return Ok(items);
        }
        loop {
            items.push(self.binary(0)?);
            if self.tokens.next_if_eq(&Token::Punctuation(',')).is_none() {
                self.expect(end)?;
                return Ok(items);
            }
        }
    }

    fn expect(&mut self, char: char) -> Result<(), String> {
        match self.tokens.next() {
            Some(token) if token == Token::Punctuation(char) => Ok(()),
            other => Err(format!("expected {char:?}, found {other:?}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn product_binds_stronger_than_sum_and_comparison_weaker() {
        let parsed = parse("a + 2 * b >= 10").unwrap();
        let Expression::Binary(Operator::GreaterOrEqual, left, right) = parsed else { panic!("{parsed:?}") };
        assert_eq!(*right, Expression::Number(10.0));
        assert!(matches!(*left, Expression::Binary(Operator::Add, _, _)));
    }

    #[test]
    fn call_has_arguments_and_lists() {
        let parsed = parse("IF(SUM([a, b]) > 0, FILL(a, 0) / b, 0)").unwrap();
        let Expression::Call(name, arguments) = parsed else { panic!("{parsed:?}") };
        assert_eq!((name.as_str(), arguments.len()), ("IF", 3));
    }

    #[test]
    fn mistake_is_named() {
        for text in ["a +", "FILL(a", "a b", "a % b", "'open"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
