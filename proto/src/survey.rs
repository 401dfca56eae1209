//! How a host is at the moment.

use drover_model::{Leftover, Survey, TakenPort};

use crate::{ConversionError, Problem, v1};

impl From<Survey> for v1::SurveyReply {
    fn from(survey: Survey) -> Self {
        let leftovers = survey.leftovers.into_iter();
        let taken = survey.taken_ports.into_iter();
        Self {
            load_milli: survey.load_milli,
            swap_used_bytes: survey.swap_used_bytes,
            turbo: survey.turbo,
            processes_limit: survey.processes_limit,
            leftovers: leftovers
                .map(|process| v1::Leftover { pid: process.pid, command: process.command })
                .collect(),
            taken_ports: taken
                .map(|taken| v1::TakenPort { port: taken.port.into(), why: taken.why })
                .collect(),
        }
    }
}

impl TryFrom<v1::SurveyReply> for Survey {
    type Error = ConversionError;

    fn try_from(reply: v1::SurveyReply) -> Result<Self, ConversionError> {
        let leftovers = reply.leftovers.into_iter();
        let taken = reply.taken_ports.into_iter().map(|taken| {
            let port = u16::try_from(taken.port);
            let port = port
                .map_err(|_| ConversionError::new("taken_ports.port", Problem::Range(taken.port.into())))?;
            Ok(TakenPort { port, why: taken.why })
        });
        Ok(Self {
            load_milli: reply.load_milli,
            swap_used_bytes: reply.swap_used_bytes,
            turbo: reply.turbo,
            processes_limit: reply.processes_limit,
            leftovers: leftovers
                .map(|process| Leftover { pid: process.pid, command: process.command })
                .collect(),
            taken_ports: taken.collect::<Result<_, ConversionError>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expect_the_same_survey_when_it_went_over_the_wire() {
        let survey = Survey {
            load_milli: Some(1250),
            swap_used_bytes: Some(4096),
            turbo: Some(false),
            processes_limit: None,
            leftovers: vec![Leftover { pid: 7, command: "httpd".to_owned() }],
            taken_ports: vec![TakenPort { port: 80, why: "process 9 (nginx)".to_owned() }],
        };
        let mut reply = v1::SurveyReply::from(survey.clone());
        assert_eq!(Survey::try_from(reply.clone()), Ok(survey));
        reply.taken_ports[0].port = 70_000;
        assert_eq!(Survey::try_from(reply).unwrap_err().field, "taken_ports.port");
    }
}
